package Labor::Util;

# Small things every part of the harness needs: waiting for a condition, ports, child processes.
# Knows nothing of nginx and of the module.

use strict;
use warnings;

use Exporter 'import';
use IO::Socket::IP;
use POSIX qw(:sys_wait_h setpgid);
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(wait_for free_port hold_port slurp spill spawn finish_child group_members last_lines);

# The longest a condition may take on a busy machine; a test that waits this long has failed.
our $DEADLINE = $ENV{LABOR_DEADLINE} || 15;

# wait_for { CONDITION } [SECONDS]: polls until the block returns something true and returns it; undef at the deadline.
sub wait_for (&;$) {
    my ($condition, $seconds) = @_;
    my $end = time + ($seconds // $DEADLINE);
    while (1) {
        my $value = $condition->();
        return $value if $value;
        return if time > $end;
        sleep 0.01;
    }
}

# A TCP port nobody listens on at this moment, chosen by the system.
sub free_port {
    my ($host) = @_;
    my $socket = hold_port($host);
    my $port = $socket->sockport;
    close $socket;
    return $port;
}

# A bound socket that does not listen: connections to it are refused, and nobody else gets the port while it lives.
sub hold_port {
    my ($host) = @_;
    $host //= '127.0.0.1';
    my $family = $host =~ /:/ ? Socket::AF_INET6() : Socket::AF_INET();
    socket(my $socket, $family, Socket::SOCK_STREAM(), 0) or die "socket: $!";
    my $address = $host =~ /:/
        ? Socket::pack_sockaddr_in6(0, Socket::inet_pton(Socket::AF_INET6(), $host))
        : Socket::pack_sockaddr_in(0, Socket::inet_aton($host));
    bind $socket, $address or die "cannot bind a port of $host: $!";
    return bless $socket, $host =~ /:/ ? 'Labor::Util::Port6' : 'Labor::Util::Port';
}

sub slurp {
    my ($file) = @_;
    open my $in, '<', $file or return '';
    local $/;
    return scalar(<$in>) // '';
}

sub spill {
    my ($file, $text) = @_;
    open my $out, '>', $file or die "$file: $!";
    print $out $text;
    close $out or die "$file: $!";
}

sub last_lines {
    my ($text, $count) = @_;
    my @lines = split /^/, $text;
    return join '', @lines > $count ? @lines[-$count .. -1] : @lines;
}

# spawn(OUT, ERR, COMMAND…, [INPUT]): a child in a process group of its own, so that all it starts can be found and ended.
# INPUT is a handle for its standard input; else that is empty.
sub spawn {
    my ($out, $err, @command) = @_;
    my $in = ref $command[-1] ? pop @command : undef;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        setpgid(0, 0);
        $SIG{$_} = 'DEFAULT' for qw(INT TERM);
        open STDIN, $in ? '<&' : '<', $in || '/dev/null' or POSIX::_exit(126);
        open STDOUT, '>>', $out or POSIX::_exit(126);
        open STDERR, '>>', $err or POSIX::_exit(126);
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    setpgid($pid, $pid);    # both sides, whoever comes first
    return $pid;
}

# finish_child(PID, SIGNAL, SECONDS): asks a child to end, kills it at the deadline. True when it went by itself.
sub finish_child {
    my ($pid, $signal, $seconds) = @_;
    kill $signal, $pid if $signal;
    return 1 if wait_for { waitpid($pid, WNOHANG) } $seconds;
    kill 'KILL', -$pid;
    waitpid $pid, 0;
    return 0;
}

# Pids of living processes in a process group (zombies do not count).
sub group_members {
    my ($group) = @_;
    my @members;
    for my $stat (glob '/proc/[0-9]*/stat') {
        # The name stands in brackets and may hold anything: read from the last bracket on.
        my ($pid, $rest) = slurp($stat) =~ /\A(\d+) \(.*\) (.*)/s or next;
        my ($state, undef, $pgrp) = split ' ', $rest;
        push @members, $pid if $pgrp == $group && $state !~ /[ZX]/;
    }
    @members = sort { $a <=> $b } @members;
    return @members;
}

package Labor::Util::Port;
sub sockport { return (Socket::unpack_sockaddr_in(getsockname $_[0]))[0] }

package Labor::Util::Port6;
sub sockport { return (Socket::unpack_sockaddr_in6(getsockname $_[0]))[0] }

1;
