# How attempts ended when the client is the reason: it leaves, or does not read.
# fails with any other table in src/outcome.rs and without the body filter: slow clients would make their server look slow.
use strict;
use warnings;
use IO::Socket::IP;
use Labor::Test;
use Labor::Outcomes;
use Labor::Raw qw(read_head linger);
use Socket qw(SOL_SOCKET SO_RCVBUF);

my $t = Labor::Test->new;
$t->model(ok => '', hang => 'hang', big => 'body=16m');
$t->raw(late => sub {
    my ($socket) = @_;
    read_head($socket) or return;
    print $socket "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok";
    linger($socket);
});

my $pages = $t->dir . '/page.html';
open my $page, '>', $pages or die "$pages: $!";
print $page '<!--#include virtual="/unbuffered/big" --><!--#include virtual="/ok" -->';
close $page;

my $upstreams = join '', map { "upstream $_ { labor @{[$_ eq 'late' ? 'header' : 'last_byte']}; server %%ADDR_$_%% max_fails=0; }\n" } qw(ok hang big late);
my $locations = join '', map {
    "location /$_ { proxy_pass http://$_; }\n"
    . "location /unbuffered/$_ { proxy_pass http://$_; proxy_buffering off; }\n"
    . "location /no_file/$_ { proxy_pass http://$_; proxy_max_temp_file_size 0; }\n"
} qw(ok hang big late);
my $logs = outcome_logs();
$t->conf(<<"EOC")->run;
    $logs
    proxy_cache_path %%DIR%%/cache keys_zone=c:1m;
    $upstreams
    server {
        listen %%LISTEN%%;
        proxy_http_version 1.1;
        $locations
        location /limited { proxy_pass http://big; proxy_limit_rate 8m; }
        location /ignored { proxy_pass http://hang; proxy_ignore_client_abort on; proxy_read_timeout 300ms; }
        location /cached { proxy_pass http://hang; proxy_cache c; proxy_read_timeout 300ms; }
        location /tunnel { proxy_pass http://ok; proxy_set_header Upgrade \$http_upgrade; proxy_set_header Connection upgrade; }
        location /page { ssi on; default_type text/html; alias $pages; }
    }
EOC

# A client with a small window, which has asked for PATH.
sub slow_client {
    my ($path) = @_;
    my $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $t->port,
        Sockopts => [[SOL_SOCKET, SO_RCVBUF, 4096]]) or die "no connection: $@";
    $socket->autoflush(1);
    print $socket Labor::HTTP::format($path, close => 1);
    return $socket;
}

# Bytes that wait to be read.
sub waiting { my ($socket) = @_; ioctl $socket, 0x541B, my $count = pack 'i', 0; return unpack 'i', $count }

# Until the answer has stopped coming: nothing more for twenty looks.
sub until_full {
    my ($socket) = @_;
    my ($last, $looks) = (0, 0);
    wait_for {
        my $now = waiting($socket);
        $looks = $now && $now == $last ? $looks + 1 : 0;
        $last = $now;
        $looks >= 20;
    };
}

sub read_all { my ($socket) = @_; 1 while sysread $socket, my $buffer, 1 << 20; close $socket }

# Leaves as soon as CONDITION holds.
sub leave { my ($path, $condition) = @_; my $c = $t->connection; $c->write(Labor::HTTP::format($path)); &wait_for($condition); $c->close }

sub in_flight { my ($name) = @_; return sub { ($t->peers($name))[0]{connections} } }

# In header mode a request has left the queue, and still holds its connection, as soon as nginx has the header.
sub header_seen {
    my ($server) = $t->peers('late');
    return $server->{connections} && !$server->{in_flight};
}

my $time = qr/\d+\.\d{6}/;
for my $prefix ('', '/unbuffered') {
    check_outcome($t, "$prefix: left before the header", 'abort/0', sub { leave("$prefix/hang", in_flight('hang')) },
        qr/\|499\|$time\|-\|/);
    check_outcome($t, "$prefix: left after the header", 'abort/200', sub { leave("$prefix/late", \&header_seen) },
        qr/\|$time\|$time\|/);
}
check_outcome($t, 'left, and nginx is to ignore that', 'fail-timeout/0', sub { leave('/ignored', in_flight('hang')) });
check_outcome($t, 'left, and nginx goes on for the cache', 'fail-timeout/0', sub { leave('/cached', in_flight('hang')) });

check_outcome($t, 'slow, all in a file', 'pass/200', sub {
    $t->reset('big');
    my $client = slow_client('/big');
    wait_for { $t->stats('big')->{answers} };
    read_all($client);
});
for my $prefix ('/no_file', '/unbuffered') {
    check_outcome($t, "$prefix: slow", 'held/200', sub { my $client = slow_client("$prefix/big"); until_full($client); read_all($client) },
        qr/\|200\|$time\|$time\|/);
    check_outcome($t, "$prefix: slow, then gone", 'held/200', sub { my $client = slow_client("$prefix/big"); until_full($client); close $client });
}
check_outcome($t, 'proxy_limit_rate', 'held/200', sub { $t->get('/limited') });
check_outcome($t, 'a subrequest before this one', 'pass/200 held/200', sub {
    my $client = slow_client('/page');
    until_full($client);
    read_all($client);
});

check_outcome($t, 'a tunnel that its client leaves', 'pass/101', sub {
    my $tunnel = $t->connection;
    $tunnel->write(Labor::HTTP::format('/tunnel', headers => [Upgrade => 'websocket', Connection => 'upgrade']));
    is $tunnel->read_answer->status, 101, 'upgraded';
    $tunnel->write('hello');
    sysread $tunnel->socket, my $echo, 5;
    is $echo, 'hello', 'and echoing';
    my ($server) = $t->peers('ok');
    is_deeply [@$server{qw(in_flight connections)}], [0, 1], 'an open tunnel is a connection, and no queue';
    $tunnel->close;
});

# What clients did says nothing bad about the servers.
is +($t->peers($_))[0]{failures}{level}, 0, "$_: no failure" for qw(ok big late);

$t->done;
