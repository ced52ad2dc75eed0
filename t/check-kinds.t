# labor_check over everything servers are reached by: tcp, gRPC, TLS with names, IPv6, unix sockets, other ports; hosts and bodies
# (O30, O31); answers that are none; connections that close; `idle`; a unix socket that dies is seen (O29).
# fails without: authority() and server_name() (the wrong virtual host answers), Talk::has_begun (a closed connection is a failure).
use strict;
use warnings;
use Labor::Raw qw(read_head tcp_reset linger);
use Labor::Test;
use Labor::Util qw(spill);

my $t = Labor::Test->new;
my $dir = $t->dir;
my $v6 = eval { require IO::Socket::IP; IO::Socket::IP->new(LocalHost => '::1', LocalPort => 0, Listen => 1) };
$t->model(A => 'close_idle=2', B => 'service=const:1ms', G => 'protocol=grpc', U => "listen=unix:$dir/u.sock", I => '');
my %raw = (
    garbage => sub { print { $_[0] } "\x15\x03\x01\x00\x02\x02\x28" },
    reset => sub { read_head($_[0]); tcp_reset($_[0]) },
    half => sub { read_head($_[0]); print { $_[0] } "HTTP/1.1 200 OK\r\nContent-Le" },
    short => sub { read_head($_[0]); print { $_[0] } "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc" },
    endless => sub { read_head($_[0]); print { $_[0] } "HTTP/1.1 200 OK\r\n"; print { $_[0] } 'X: ' . 'x' x 1000 . "\r\n" for 1 .. 20; linger($_[0]) },
    drip => sub { read_head($_[0]); for (split //, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n") { print { $_[0] } $_; select undef, undef, undef, 0.03 } linger($_[0]) },
    dead => sub { linger($_[0]) },
    early => sub { while (read_head($_[0])) { print { $_[0] } "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n5\r\n well\r\n0\r\n\r\n" } },
);
my %cause = (garbage => 'header', reset => 'reset', half => 'reset', short => 'reset', endless => 'header', drip => 'timeout', dead => 'timeout');
$t->raw($_ => $raw{$_}) for sort keys %raw;

my $tls = system("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost "
    . "-keyout $dir/key.pem -out $dir/cert.pem 2>/dev/null") == 0;
my $check = 'labor_check interval=300ms timeout=300ms fails=1';
my $blocks = join "\n", map { "upstream raw_$_ { labor; $check" . ($_ eq 'early' ? ' "body=all well"' : '') . "; server %%ADDR_$_%%; }" } sort keys %raw;
# One port, virtual hosts: each says 200 to its own name only.
my $listen = 'listen 127.0.0.1:%%PORT_V%%; ' . ($v6 ? 'listen [::1]:%%PORT_V%%; ' : '') . "listen unix:$dir/v.sock;";
my $secure = $tls ? <<"EOT" : '';
    upstream named { labor; $check ssl host=shop.test; server %%ADDR_S%%; }
    upstream unnamed { labor; $check ssl; server localhost:%%PORT_S%%; server %%ADDR_S%%; }
    upstream handshake { labor; $check type=tcp ssl; server %%ADDR_S%%; server %%ADDR_B%%; }
    server {
        listen 127.0.0.1:%%PORT_S%% ssl; ssl_certificate $dir/cert.pem; ssl_certificate_key $dir/key.pem; access_log off;
        location / { return 200 "\$ssl_server_name"; }
        if (\$ssl_server_name !~ ^(shop\\.test|localhost)?\$) { return 503; }
        set \$wrong '';
        if (\$host = shop.test) { set \$wrong 0\$ssl_server_name; }
        if (\$wrong = 0) { return 503; }
    }
EOT
$t->conf(<<"EOC")->run;
    $blocks
    upstream kept { labor; $check; server %%ADDR_A%%; }
    upstream tcp { labor; $check type=tcp; server %%ADDR_B%%; }
    upstream grpc { labor; $check type=grpc service=shop.Cart; server %%ADDR_G%%; }
    upstream nogrpc { labor; $check type=grpc; server 127.0.0.1:%%PORT_V%%; }
    upstream sock { labor; $check; server unix:$dir/u.sock; }
    upstream quiet { labor; $check idle; server %%ADDR_I%%; }
    upstream byname { labor; $check; server localhost:%%PORT_V%%; }
    upstream bynumber { labor; $check; server 127.0.0.1:%%PORT_V%%; @{[$v6 ? 'server [::1]:%%PORT_V%%;' : '']} }
    upstream other { labor; $check port=%%PORT_V%% host=shop.test uri=/shop status=204; server %%ADDR_B%%; }
    upstream socket { labor; $check status=200 method=HEAD; server unix:$dir/v.sock; }
    upstream wrong { labor; $check body="ok"; server 127.0.0.1:%%PORT_V%%; }
    server { $listen access_log off; server_name localhost; location / { return 200 "local\$http_host"; } }
    server { $listen access_log off; server_name 127.0.0.1 [::1]; location / { return 200 "number"; } }
    server { $listen access_log off; server_name shop.test; location /shop { return 204; } }
    server { listen 127.0.0.1:%%PORT_V%% default_server; access_log off; location / { return 503; } }
    $secure
    server { listen %%LISTEN%%; location / { proxy_pass http://quiet; } }
EOC

sub peers { return $t->peers($_[0], $t->status("upstream=$_[0]")) }
sub checks { return map { $_->{check} } peers($_[0]) }
sub healthy { my ($upstream, $name) = @_; return eventually { !grep { $_->{state} ne 'healthy' } checks($upstream) } $name // "$upstream: healthy" }
sub sick { my ($upstream, $cause, $name) = @_; eventually { !grep { ($_->{last} // '') ne $cause || $_->{state} ne 'unhealthy' } checks($upstream) } $name // "$upstream: $cause" or diag explain [checks($upstream)]; return }

# By name and number, over IPv4, IPv6 and a unix socket: the host is the configured name (O30).
healthy($_) for qw(byname bynumber other socket);
sick('wrong', 'body', 'a body without the text (O31)');
is((checks('other'))[0]{status}, 204, 'statuses can be named');
healthy('raw_early', 'interim answers and chunks are read');
for my $case (sort keys %cause) {
    sick("raw_$case", $cause{$case});
}

# tcp and gRPC.
healthy('tcp');
$t->close('B');
sick('tcp', 'connect');
$t->open('B');
healthy('tcp', 'tcp: back');
healthy('grpc');
$t->set(G => 'fail=1');
sick('grpc', 'not_serving');
$t->set(G => 'fail=0');
healthy('grpc', 'grpc: serving again');
sick('nogrpc', 'header', 'HTTP/1.1 is no gRPC');

# A unix socket whose server dies is seen (O29).
healthy('sock');
$t->close('U');
sick('sock', 'connect', 'a dead unix socket is seen');
$t->open('U');
healthy('sock', 'and its return');

# Connections are kept, and one that the server closes after two answers is no failure.
$t->reset('A');
eventually { $t->stats('A')->{requests} >= 10 } 'probes go on';
my $stats = $t->stats('A');
ok $stats->{connections} <= $stats->{requests} * 0.7, 'two answers a connection' or diag explain $stats;
# Otherwise every second probe would be one; a time-out on a busy machine may be.
cmp_ok((peers('kept'))[0]{health_checks}{fails}, '<=', 2, 'closing a kept connection is no failure');

# Only quiet servers with `idle`.
healthy('quiet');
my $before = ((peers('quiet'))[0]{health_checks}{checks});
my $until = time + 2;
my $asked = 0;
while (time < $until) { $t->get('/'); $asked++ }
my $during = ((peers('quiet'))[0]{health_checks}{checks}) - $before;
ok $during <= 2, "no probes beside $asked requests: $during";
eventually { ((peers('quiet'))[0]{health_checks}{checks}) > $before + $during + 2 } 'but when nobody asks';

SKIP: {
    skip 'no openssl', 4 unless $tls;
    healthy('named', 'TLS: the name that is asked for is the host');
    healthy('unnamed', 'TLS: by its configured name, and none for an address');
    my ($good, $bad) = checks('handshake');
    eventually { ($good, $bad) = checks('handshake'); $good->{state} eq 'healthy' } 'tcp with TLS: a handshake is enough';
    eventually { ($good, $bad) = checks('handshake'); ($bad->{last} // '') eq 'tls' } 'a server without TLS fails it' or diag explain $bad;
}

$t->done;
