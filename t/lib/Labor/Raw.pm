package Labor::Raw;

# A back end whose every byte the test decides: for answers that no model server gives (half a status line, a reset in
# mid-chunk, an interim answer). A process with a child for each connection; ends with its test.

use strict;
use warnings;

use Exporter 'import';
use IO::Select;
use IO::Socket::IP;
use POSIX qw(:sys_wait_h setpgid);
use Labor::Util qw(wait_for finish_child);
use Socket qw(SOL_SOCKET SO_LINGER);

our @EXPORT_OK = qw(read_head tcp_reset linger);

# The longest a connection lives: a test that needs more has failed already.
use constant LIFETIME => 60;

# new(HANDLER): HANDLER->(SOCKET) has one connection; when it returns, the connection is closed.
sub new {
    my ($class, $handler) = @_;
    my $listen = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => 128) or die "listen: $@";
    my $self = bless { address => '127.0.0.1:' . $listen->sockport }, $class;
    my $parent = $$;
    $self->{pid} = fork // die "fork: $!";
    if ($self->{pid} == 0) {
        setpgid(0, 0);
        _serve($listen, $handler, $parent);
        POSIX::_exit(0);
    }
    setpgid($self->{pid}, $self->{pid});
    return $self;
}

sub address { return $_[0]{address} }

sub _serve {
    my ($listen, $handler, $parent) = @_;
    alarm 0;
    $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP ALRM);
    $SIG{CHLD} = 'IGNORE';
    my $ready = IO::Select->new($listen);
    # A second at most between the end of the test and the end of this process, however the test ended.
    while (getppid == $parent) {
        next unless $ready->can_read(1);
        my $socket = $listen->accept or next;
        my $pid = fork;
        if (defined $pid && $pid == 0) {
            close $listen;
            alarm LIFETIME;
            $SIG{PIPE} = 'IGNORE';
            $socket->autoflush(1);
            eval { $handler->($socket) };
            close $socket;
            POSIX::_exit(0);
        }
        close $socket;
    }
}

# True when the process ended by itself.
sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return 1;
    kill 'TERM', -$pid;
    return finish_child($pid, undef, 5);
}

# The head of a request; '' when the connection ends before.
sub read_head {
    my ($socket) = @_;
    my $head = '';
    while ($head !~ /\r\n\r\n/) { sysread $socket, $head, 4096, length $head or return '' }
    return $head;
}

# Makes the coming close a TCP reset.
sub tcp_reset {
    my ($socket) = @_;
    setsockopt $socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0;
    return;
}

# Says nothing more until the other side closes.
sub linger {
    my ($socket) = @_;
    1 while sysread $socket, my $buffer, 4096;
    return;
}

1;
