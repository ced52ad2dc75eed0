# How attempts ended, by what came over the wire: broken, late and unreadable answers, with and without buffering.
# fails with any other table in src/outcome.rs: nginx itself calls most of these a success.
use strict;
use warnings;
use Labor::Test;
use Labor::Outcomes;
use Labor::Raw qw(read_head tcp_reset linger);

my $t = Labor::Test->new;
my $ok = "HTTP/1.1 200 OK\r\n";
my $chunked = $ok . "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";

# What the server says once it has read the request, and what it does then: close, reset, or wait for the other side.
sub says {
    my ($text, $then) = @_;
    return sub {
        my ($socket) = @_;
        read_head($socket) or return;
        print $socket $text;
        linger($socket) if $then eq 'wait';
        return unless $then eq 'reset';
        # A reset overtakes what was not read yet, and nothing tells when nginx has read it.
        IO::Select->new($socket)->can_read(0.2);
        tcp_reset($socket);
    };
}

my %raw = (
    short => [$ok . "Content-Length: 100\r\n\r\nok", 'close'],
    chunk_reset => [$chunked, 'reset'],
    chunk_end => [$chunked, 'close'],
    chunk_bad => ["${chunked}zz\r\nabc", 'wait'],
    chunk_late => [$chunked, 'wait'],
    chunk_ok => ["${chunked}0\r\n\r\n", 'close'],
    eof => [$ok . "Connection: close\r\n\r\nhello", 'close'],
    late => [$ok . "Content-Length: 100\r\n\r\nok", 'wait'],
    partial => ['HTTP/1.1 20', 'close'],
    bad_header => ["${ok}Bad header\0line\r\n\r\n", 'wait'],
    no_status => ["hello\r\n\r\n", 'close'],
    tls => ["\x15\x03\x03\x00\x02\x02\x46\r\n\r\n", 'close'],
    nothing => ['', 'close'],
    upgraded => ["HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nhi", 'reset'],
);
$t->raw(map { $_ => says(@{ $raw{$_} }) } sort keys %raw);
my %model = (
    ok => '',
    hang => 'hang',
    reset => 'reset=header',
    cut => 'reset=body,body=1k',
    garbage => 'garbage',
    trickle => 'body=2,chunk_delay=1m',
    stale => 'close_idle=1:late',
);
$t->model(%model);

my @names = sort(keys %raw, keys %model);
my $upstreams = join '', map { "upstream $_ { labor; server %%ADDR_$_%% max_fails=0; keepalive 4; }\n" } @names;
my $locations = join '', map {
    # Time enough for a busy machine to send the header of those that send one.
    my $timeout = /hang/ ? 'proxy_read_timeout 300ms;' : /late|trickle/ ? 'proxy_read_timeout 1500ms;' : '';
    "location /$_ { proxy_pass http://$_; $timeout }\n"
    . "location /unbuffered/$_ { proxy_pass http://$_; proxy_buffering off; $timeout }\n"
    . "location /cached/$_ { proxy_pass http://$_; proxy_cache c; proxy_cache_valid 200 1h; $timeout }\n"
} @names;
my $logs = outcome_logs();
$t->conf(<<"EOC")->run;
    $logs
    proxy_cache_path %%DIR%%/cache keys_zone=c:1m;
    $upstreams
    upstream dead { labor; server %%DEAD%% max_fails=0; }
    server {
        listen %%LISTEN%%;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        $locations
        location /dead { proxy_pass http://dead; }
        location /tunnel { proxy_pass http://upgraded; proxy_set_header Upgrade \$http_upgrade; proxy_set_header Connection upgrade; }
    }
EOC

my %expected = (
    ok => 'pass/200',
    chunk_ok => 'pass/200',
    eof => 'pass/200',
    short => 'fail-reset/200',
    cut => 'fail-reset/200',
    chunk_reset => 'fail-reset/200',
    chunk_end => 'fail-reset/200',
    chunk_bad => 'fail-header/200',
    chunk_late => 'fail-timeout/200',
    late => 'fail-timeout/200',
    trickle => 'fail-timeout/200',
    hang => 'fail-timeout/0',
    reset => 'fail-reset/0',
    nothing => 'fail-reset/0',
    partial => 'fail-reset/0',
    bad_header => 'fail-header/0',
    # No status line: nginx passes it on as HTTP/0.9.
    tls => 'fail-header/0',
    garbage => 'fail-header/0',
    no_status => 'fail-header/0',
);
my $time = qr/\d+\.\d{6}/;
for my $prefix ('', '/unbuffered') {
    for my $name (sort keys %expected) {
        my $header = $expected{$name} =~ m{/200} ? $time : '-';
        check_outcome($t, "$prefix/$name", $expected{$name}, sub { $t->get("$prefix/$name") }, qr/\|$time\|$header\|/);
    }
}
check_outcome($t, 'refused', 'fail-connect/0', sub { $t->get('/dead') }, qr/\|502\|/);

# A cached answer that broke off must not be stored, and counts.
check_outcome($t, "cached, broken off ($_)", 'fail-reset/200', sub { $t->get('/cached/short') }) for 1, 2;

# Two requests on one connection meet the same worker and so the same kept connection, which its server closes as the
# second arrives: that says nothing about the server.
my $client = $t->connection;
check_outcome($t, 'a connection to keep', 'pass/200', sub { $client->request('/stale') });
check_outcome($t, 'closed meanwhile', 'void/0 pass/200', sub { $client->request('/stale') }, qr/\|200\|/);

check_outcome($t, 'a tunnel that is reset', 'pass/101', sub {
    my $tunnel = $t->connection;
    $tunnel->write(Labor::HTTP::format('/tunnel', headers => [Upgrade => 'websocket', Connection => 'upgrade']));
    $tunnel->read_answer;
    $tunnel->closed;
});

$t->done;
