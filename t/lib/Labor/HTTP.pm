package Labor::HTTP;

# A small HTTP/1.1 client that shows what came over the wire: one connection, several requests, bursts, raw sockets.
# Not for measuring: `labor-bench load` does that.

use strict;
use warnings;

use IO::Select;
use IO::Socket::IP;
use IO::Socket::UNIX;
use Time::HiRes qw(time);

# A request that takes longer has failed; generous, as several tests share the machine.
our $TIMEOUT = 20;

# connect(PORT | HOST:PORT | unix:PATH): a connection for any number of requests.
sub connect {
    my ($class, $where) = @_;
    my $socket;
    if ($where =~ /^unix:(.*)/) {
        $socket = IO::Socket::UNIX->new(Peer => $1);
    }
    else {
        my ($host, $port) = $where =~ /^(?:\[?(.*?)\]?:)?(\d+)$/ or die "no address: $where";
        $socket = IO::Socket::IP->new(PeerHost => $host // '127.0.0.1', PeerPort => $port, Timeout => 5);
    }
    return unless $socket;
    $socket->autoflush(1);
    return bless { socket => $socket, buffer => '' }, $class;
}

sub socket { return $_[0]{socket} }
sub close { close $_[0]{socket}; return }

sub write {
    my ($self, $bytes) = @_;
    local $SIG{PIPE} = 'IGNORE';
    return print { $self->{socket} } $bytes;
}

# The text of a request. Options: method, headers => [name, value, …], body, host, close.
sub format {
    my ($path, %with) = @_;
    my @headers = (Host => $with{host} // 'localhost', @{ $with{headers} || [] });
    push @headers, 'Content-Length' => length $with{body} if defined $with{body};
    push @headers, Connection => 'close' if $with{close};
    my $text = ($with{method} // (defined $with{body} ? 'POST' : 'GET')) . " $path HTTP/1.1\r\n";
    while (my ($name, $value) = splice @headers, 0, 2) { $text .= "$name: $value\r\n" }
    return "$text\r\n" . ($with{body} // '');
}

# One request and its whole answer; undef when the connection ended before a header.
sub request {
    my ($self, $path, %with) = @_;
    my $start = time;
    $self->write(Labor::HTTP::format($path, %with));
    my $answer = $self->read_answer(head => ($with{method} // '') eq 'HEAD', timeout => $with{timeout});
    $answer->{time} = time - $start if $answer;
    return $answer;
}

# Reads one answer; `complete` in it is false when the body was cut off.
sub read_answer {
    my ($self, %with) = @_;
    my $end = time + ($with{timeout} // $TIMEOUT);
    until ($self->{buffer} =~ /\r\n\r\n/) { $self->_more($end) or return }
    my $answer = Labor::HTTP::Answer->parse_head(\$self->{buffer});
    return $self->read_answer(%with) if $answer->{status} =~ /^1/ && $answer->{status} != 101;
    $answer->{complete} = 1;
    if ($with{head} || $answer->{status} =~ /^(?:204|304|101)$/) { $answer->{body} = '' }
    elsif (($answer->header('Transfer-Encoding') // '') =~ /chunked/i) { $self->_read_chunks($answer, $end) }
    elsif (defined(my $length = $answer->header('Content-Length'))) { $self->_read_length($answer, $length, $end) }
    else {
        1 while $self->_more($end);
        $answer->{body} = delete $self->{buffer};
        $self->{buffer} = '';
    }
    return $answer;
}

sub _read_length {
    my ($self, $answer, $length, $end) = @_;
    while (length $self->{buffer} < $length) {
        next if $self->_more($end);
        $answer->{complete} = 0;
        last;
    }
    $answer->{body} = substr $self->{buffer}, 0, $length, '';
}

sub _read_chunks {
    my ($self, $answer, $end) = @_;
    $answer->{body} = '';
    while (1) {
        if ($self->{buffer} =~ /\A([0-9a-fA-F]+)[^\r]*\r\n/) {
            my ($size, $head) = (hex $1, $+[0]);
            if (length $self->{buffer} >= $head + $size + 2) {
                $answer->{body} .= substr $self->{buffer}, $head, $size;
                substr($self->{buffer}, 0, $head + $size + 2) = '';
                return if $size == 0;
                next;
            }
        }
        unless ($self->_more($end)) { $answer->{complete} = 0; return }
    }
}

# Some bytes more; false at the end of the stream or at the deadline.
sub _more {
    my ($self, $end) = @_;
    my $left = $end - time;
    return if $left <= 0 || !IO::Select->new($self->{socket})->can_read($left);
    return sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
}

# True when the other side closes within SECONDS.
sub closed {
    my ($self, $seconds) = @_;
    my $end = time + ($seconds // 5);
    1 while $self->_more($end);
    return time < $end;
}

# burst(WHERE, PATHS, OPTIONS): all requests at once, each on its own connection; the answers in the order of the paths.
sub burst {
    my ($class, $where, $paths, %with) = @_;
    my @connections = map {
        my $connection = $class->connect($where);
        $connection->write(Labor::HTTP::format($_, %with, close => 1)) if $connection;
        $connection;
    } @$paths;
    return map { $_ && $_->read_answer(timeout => $with{timeout}) } @connections;
}

package Labor::HTTP::Answer;

# Takes the head off the front of a buffer.
sub parse_head {
    my ($class, $buffer) = @_;
    $$buffer =~ s/\A(.*?)\r\n\r\n//s;
    my ($line, @lines) = split /\r\n/, $1;
    my ($status) = $line =~ m{^HTTP/\S+ (\d+)};
    my @headers = map { [/^([^:]*):\s*(.*)$/] } @lines;
    return bless { status => $status // 0, headers => \@headers }, $class;
}

sub status { return $_[0]{status} }
sub body { return $_[0]{body} }
sub time { return $_[0]{time} }
sub complete { return $_[0]{complete} }

# The value of the first header of that name.
sub header {
    my ($self, $name) = @_;
    for (@{ $self->{headers} }) { return $_->[1] if lc $_->[0] eq lc $name }
    return;
}

1;
