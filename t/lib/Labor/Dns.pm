package Labor::Dns;

# A name server on loopback whose answers the test changes while it runs: A records over UDP, enough for nginx's resolver.
# Every other type has an empty answer, every unknown name does not exist.

use strict;
use warnings;

use IO::Select;
use IO::Socket::IP;
use POSIX qw(setpgid);
use Labor::Util qw(finish_child slurp spill);
use Socket qw(inet_aton SOCK_DGRAM);

# The shortest time nginx keeps an answer, seconds.
use constant TTL => 1;
# What nginx's resolver reads at most.
use constant MOST_BYTES => 4096;

# new(DIR): answers from the file DIR/dns, which set() writes.
sub new {
    my ($class, $dir) = @_;
    my $socket = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Type => SOCK_DGRAM) or die "udp: $@";
    my $self = bless { address => '127.0.0.1:' . $socket->sockport, file => "$dir/dns", names => {} }, $class;
    my $parent = $$;
    $self->{pid} = fork // die "fork: $!";
    if ($self->{pid} == 0) {
        setpgid(0, 0);
        alarm 0;
        $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
        # A second at most between the end of the test and the end of this process.
        while (getppid == $parent) {
            next unless IO::Select->new($socket)->can_read(1);
            my $from = recv $socket, my $question, 512, 0 or next;
            my $answer = _answer($question, $self->{file});
            send $socket, $answer, 0, $from if defined $answer;
        }
        POSIX::_exit(0);
    }
    setpgid($self->{pid}, $self->{pid});
    return $self;
}

sub address { return $_[0]{address} }

# set(NAME => [ADDRESS …], …): from now on. The rename makes it one step.
sub set {
    my ($self, %names) = @_;
    @{ $self->{names} }{ keys %names } = values %names;
    spill("$self->{file}.new", join '', map { "$_ @{ $self->{names}{$_} }\n" } sort keys %{ $self->{names} });
    rename "$self->{file}.new", $self->{file} or die "$self->{file}: $!";
    return $self;
}

sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return 1;
    return finish_child($pid, 'TERM', 5);
}

# The answer to a question; undef when it is none.
sub _answer {
    my ($question, $file) = @_;
    return if length $question < 17;
    my ($id, $flags, $questions) = unpack 'n3', $question;
    my ($at, @labels) = 12;
    while (my $length = unpack 'C', substr $question, $at, 1) {
        push @labels, substr $question, $at + 1, $length;
        $at += 1 + $length;
        return if $at + 5 > length $question;
    }
    my $asked = substr $question, 12, $at + 5 - 12;
    my $type = unpack 'n', substr $question, $at + 1, 2;
    my ($line) = grep { /^\Q@{[join '.', @labels]}\E / } split /\n/, slurp($file);
    my @addresses = $line && $type == 1 ? (split ' ', $line)[1 .. (split ' ', $line) - 1] : ();
    # Answer, recursion available; 3 is "no such name". Each record names what stands at byte 12.
    my $records = join '', map { pack('nnnNn', 0xc00c, 1, 1, TTL, 4) . inet_aton($_) } @addresses;
    my $answer = pack('n6', $id, 0x8580 | ($line ? 0 : 3), 1, scalar @addresses, 0, 0) . $asked . $records;
    die "too many addresses for one answer\n" if length $answer > MOST_BYTES;
    return $answer;
}

1;
