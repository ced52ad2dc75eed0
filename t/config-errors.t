# What `nginx -t` refuses, and that it says so with the value and a hint. And what it must not refuse.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;

sub upstream {
    my ($inside) = @_;
    return "upstream u { $inside server 127.0.0.1:9; } server { listen %%LISTEN%%; location / { proxy_pass http://u; } }";
}

# What stands in the block before its server, and what nginx must say: every part.
my @refused = (
    ['labor fast;', 'invalid parameter "fast"', 'it must be'],
    ['labor policy;', 'invalid parameter "policy"', 'it must be'],
    ['labor headers;', 'invalid parameter "headers"'],
    ['labor speed=1;', 'invalid parameter "speed=1"', '"half_life="'],
    ['labor policy=quickest;', 'invalid value "quickest" in parameter "policy"', '"fastest"', '"decay"'],
    ['labor policy=;', 'invalid value "" in parameter "policy"'],
    ['labor policy=fastest policy=decay;', 'duplicate parameter "policy"'],
    ['labor half_life=fast;', 'invalid value "fast" in parameter "half_life"', 'it must be a time'],
    ['labor half_life=-1s;', 'invalid value "-1s"'],
    ['labor half_life=0;', 'invalid value "0"'],
    ['labor half_life=99ms;', 'invalid value "99ms"', '100ms'],
    ['labor half_life=11m;', 'invalid value "11m"', '10m'],
    ['labor half_life=99999999999999999999s;', 'invalid value "99999999999999999999s"'],
    ['labor slow_start=500ms;', 'invalid value "500ms" in parameter "slow_start"', 'it must be 0 or a time from "1s" to "1h"'],
    ['labor slow_start=61m;', 'invalid value "61m"'],
    ['labor slow_start=warm;', 'invalid value "warm" in parameter "slow_start"'],
    ['labor slow_start=5s slow_start=5s;', 'duplicate parameter "slow_start"'],
    ['labor half_life=1s half_life=1s;', 'duplicate parameter "half_life"'],
    ['labor explore=1;', 'invalid value "1" in parameter "explore"', '"off"', '10%'],
    ['labor explore=11%;', 'invalid value "11%"'],
    ['labor explore=10.01%;', 'invalid value "10.01%"'],
    ['labor explore=-1%;', 'invalid value "-1%"'],
    ['labor explore=%;', 'invalid value "%"'],
    ['labor explore=nan%;', 'invalid value "nan%"'],
    ['labor explore=1e0%;', 'invalid value "1e0%"'],
    ['labor explore=on;', 'invalid value "on"'],
    ['labor explore=1% explore=off;', 'duplicate parameter "explore"'],
    ['labor failure=;', 'invalid value "" in parameter "failure"', 'list of statuses'],
    ['labor failure=500,;', 'invalid value ""'],
    ['labor failure=5xx;', 'invalid value "5xx"'],
    ['labor failure=200;', 'invalid value "200"', '400 to 599'],
    ['labor failure=600;', 'invalid value "600"'],
    ['labor failure=+500;', 'invalid value "+500"'],
    ['labor failure=500,500;', 'duplicate value "500"'],
    ['labor failure=500 failure=503;', 'duplicate parameter "failure"'],
    ['labor header last_byte;', '"header" and "last_byte" are mutually exclusive'],
    ['labor header header;', 'duplicate parameter "header"'],
    ['labor policy=round_robin half_life=5s;', 'half_life=5s', 'no effect', 'round_robin'],
    ['labor policy=least_conn explore=1%;', 'explore=1%', 'no effect', 'least_conn'],
    ['labor; labor;', '"labor" directive is duplicate'],
    ['labor; labor_hash $uri bound=0.99;', 'invalid value "0.99" in parameter "bound"', 'it must be'],
    ['labor; labor_hash $uri bound=inf;', 'invalid value "inf" in parameter "bound"'],
    ['labor; labor_hash $uri bound=;', 'invalid value "" in parameter "bound"'],
    ['labor; labor_hash $uri bound=101;', 'invalid value "101" in parameter "bound"'],
    ['labor; labor_hash $uri vnodes=0;', 'invalid value "0" in parameter "vnodes"', '1024'],
    ['labor; labor_hash $uri vnodes=1025;', 'invalid value "1025" in parameter "vnodes"'],
    ['labor; labor_hash $uri vnodes=+1;', 'invalid value "+1" in parameter "vnodes"'],
    ['labor; labor_hash $uri slack=1;', 'invalid value "1" in parameter "slack"', '"off"'],
    ['labor; labor_hash $uri slack=on;', 'invalid value "on" in parameter "slack"'],
    ['labor; labor_hash $uri secret=short;', 'invalid value in parameter "secret"', 'at least 16 characters'],
    ['labor; labor_hash $uri bound=2 bound=2;', 'duplicate parameter "bound"'],
    ['labor; labor_hash $uri vnodes=2 vnodes=2;', 'duplicate parameter "vnodes"'],
    ['labor; labor_hash $uri slack=2 slack=off;', 'duplicate parameter "slack"'],
    ['labor; labor_hash $uri consistent;', 'invalid parameter "consistent"', '"bound="'],
    ['labor; labor_hash bound=2;', 'invalid key "bound=2"', 'a text with variables'],
    ['labor; labor_hash "";', 'invalid key ""'],

    ['labor; labor_hash $uri; labor_hash $uri;', '"labor_hash" directive is duplicate'],
    ['labor_hash $uri;', '"labor_hash" requires "labor"'],
    ['least_conn; labor_hash $uri;', '"labor_hash" requires "labor"'],
    (map { ["$_; labor;", 'load balancing method'], ["labor; $_;", 'load balancing method'] }
        'least_conn', 'ip_hash', 'hash $uri', 'random'),
);

for (@refused) {
    my ($inside, @parts) = @$_;
    my $said = $t->config_error(upstream($inside)) // 'accepted';
    like $said, qr/\[emerg\]/, "refused: $inside";
    like $said, qr/\Q$_\E/, "    and says: $_" for @parts;
    like $said, qr/check\.conf:\d+/, '    and where';
}

# The breaker, in a block with `labor`.
for (
    ['fails=0', 'invalid value "0" in parameter "fails"', 'from 1 to 1000'], ['fails=1001', '"1001"'], ['fails=+5', '"+5"'],
    ['window=0', 'invalid value "0" in parameter "window"', 'from "1s" to "1h"'], ['window=2h', '"2h"'], ['open=500ms', 'in parameter "open"'],
    ['max_open=x', 'invalid value "x" in parameter "max_open"'], ['open=2m max_open=1m', '"open" is longer than "max_open"'],
    ['open=10s max_open=9s', '"open" is longer than "max_open"'], ['max_ejected=0%', 'from "1%" to "100%"'],
    ['max_ejected=101%', '"101%"'], ['max_ejected=50', '"50" in parameter "max_ejected"'], ['fails=1 fails=1', 'duplicate parameter "fails"'],
    ['off fails=3', '"off" must be the only parameter'], ['off off', 'duplicate parameter "off"'], ['on', 'invalid parameter "on"', '"max_ejected="'],
) {
    my ($words, @parts) = @$_;
    my $said = $t->config_error(upstream("labor; labor_breaker $words;")) // 'accepted';
    like $said, qr/\Q$_\E/, "refused: labor_breaker $words: $_" for @parts;
}
# Checks, in a block with `labor`.
for (
    ['interval', 'invalid parameter "interval"', '"type="', '"idle"'],
    ['every=5s', 'invalid parameter "every=5s"'],
    ['type=udp', 'invalid value "udp" in parameter "type"', '"http", "tcp" or "grpc"'],
    ['interval=99ms', 'invalid value "99ms" in parameter "interval"', 'from "100ms" to "1h"'],
    ['interval=61m', 'invalid value "61m"'],
    ['interval=1s interval=1s', 'duplicate parameter "interval"'],
    ['interval=1s timeout=2s', 'parameter "timeout" is longer than "interval"'],
    ['timeout=9ms', 'invalid value "9ms" in parameter "timeout"'],
    ['jitter=3s', 'parameter "jitter" is longer than half of "interval"'],
    ['jitter=x', 'invalid value "x" in parameter "jitter"'],
    ['fails=0', 'invalid value "0" in parameter "fails"', 'from 1 to 100'],
    ['passes=101', 'invalid value "101" in parameter "passes"'],
    ['port=0', 'invalid value "0" in parameter "port"', 'from 1 to 65535'],
    ['port=65536', 'invalid value "65536"'],
    ['uri=health', 'invalid value "health" in parameter "uri"', 'must begin with "/"'],
    ['"uri=/a b"', 'invalid value "/a b" in parameter "uri"'],
    ['uri=/a#b', 'invalid value'],
    ['host=', 'invalid value "" in parameter "host"'],
    ['"host=a\r\nB: c"', 'in parameter "host"', 'visible ASCII'],
    ['method=get', 'invalid value "get" in parameter "method"'],
    ['method=CONNECT', 'invalid value "CONNECT"'],
    ['status=99', 'invalid value "99" in parameter "status"', '"200-299,401"'],
    ['status=300-200', 'invalid value "300-200"'],
    ['status=200,', 'invalid value "200,"'],
    ['body=', 'invalid value "" in parameter "body"'],
    ['body="all well"', 'in parameter "body"', 'quotes around the whole parameter'],
    ['body=x method=HEAD', 'parameter "body=" has no effect with "method=HEAD"'],
    ['type=tcp uri=/x', 'parameter "uri=" has no effect with "type=tcp"'],
    ['type=tcp body=x', 'parameter "body=" has no effect'],
    ['type=tcp host=a', 'parameter "host=" has no effect with "type=tcp" without "ssl"'],
    ['type=grpc status=200', 'parameter "status=" has no effect with "type=grpc"'],
    ['service=a', 'parameter "service=" has no effect with "type=http"'],
    ['ssl ssl', 'duplicate parameter "ssl"'],
    ['idle=yes', 'invalid parameter "idle=yes"'],
) {
    my ($words, @parts) = @$_;
    my $said = $t->config_error(upstream("labor; labor_check $words;")) // 'accepted';
    like $said, qr/\Q$_\E/, "refused: labor_check $words: $_" for @parts;
}
like $t->config_error(upstream('labor_check; labor; labor_check;')) // '', qr/is duplicate/, 'refused: labor_check twice';
for my $alone ('labor_check;', 'least_conn; labor_check type=tcp;') {
    like $t->config_error(upstream($alone)) // '', qr/"labor_check" has no effect without "labor" .* in \S+check\.conf:\d+/, "refused: $alone";
}
like $t->config_error(upstream('labor; labor_check port=81; server unix:/s;')) // '',
    qr/"port=" of "labor_check" cannot be used with server "unix:\/s", .* in \S+check\.conf:\d+/, 'refused: a port of a unix socket';
like $t->config_error(upstream('labor_breaker; labor; labor_breaker;')) // '', qr/is duplicate/, 'refused: labor_breaker twice';
for my $alone ('labor_breaker;', 'least_conn; labor_breaker off;') {
    like $t->config_error(upstream($alone)) // '', qr/"labor_breaker" has no effect without "labor" .* in \S+check\.conf:\d+/, "refused: $alone";
}

# Outside of upstream{} and location{}.
for (
    ['labor; server { listen %%LISTEN%%; }', '"labor" directive is not allowed here'],
    ['server { listen %%LISTEN%%; location / { labor; } }', '"labor" directive is not allowed here'],
    ['labor_status; server { listen %%LISTEN%%; }', '"labor_status" directive is not allowed here'],
    ['server { listen %%LISTEN%%; location / { labor_status on; } }', 'invalid format "on", it must be "html", "json" or "prometheus"'],
    ['server { listen %%LISTEN%%; location / { labor_status html json; } }', 'invalid number of arguments in "labor_status"'],
    ['server { listen %%LISTEN%%; location / { labor_status; labor_status html; } }', 'is duplicate'],
    ['server { listen %%LISTEN%%; location / { labor_status; labor_status; } }', 'is duplicate'],
    ['labor_hash $uri; server { listen %%LISTEN%%; }', '"labor_hash" directive is not allowed here'],
    ['upstream u { labor; labor_hash; server 127.0.0.1:9; }', 'invalid number of arguments in "labor_hash"'],
    ['labor_zone;', 'invalid number of arguments in "labor_zone"'],
    ['labor_zone 1m; labor_zone 1m;', '"labor_zone" directive is duplicate'],
    ['labor_zone big;', 'invalid zone size "big"'],
    ['labor_zone 4k;', 'zone "4k" is too small'],
    ['upstream u { labor; }', 'no servers are inside upstream'],
) {
    my ($http, @parts) = @$_;
    my $said = $t->config_error($http) // 'accepted';
    like $said, qr/\Q$_\E/, "refused: $http: $_" for @parts;
}

# The limits themselves, and everything at once.
for my $inside (
    'labor;', 'labor header;', 'labor last_byte;',
    (map { "labor policy=$_;" } qw(fastest weighted least_conn round_robin decay)),
    'labor half_life=100ms;', 'labor half_life=10m;', 'labor half_life=1m30s;',
    'labor explore=0%;', 'labor explore=10%;', 'labor explore=0.5%;', 'labor explore=off;',
    'labor slow_start=0;', 'labor slow_start=1s;', 'labor slow_start=1h;', 'labor policy=round_robin slow_start=30s;',
    'labor; labor_check;', 'labor_check type=tcp idle; labor;', 'labor; labor_check interval=100ms jitter=50ms timeout=100ms fails=100 passes=100;',
    'labor; labor_check uri=/h?a=b method=OPTIONS host=a.b:1 port=65535 status=100-199,204,500-599 "body=all well";', 'labor; labor_check body="x";',
    'labor; labor_check type=grpc service=a.B;', 'labor; labor_check; labor_breaker; labor_hash $uri;',
    'labor; labor_breaker;', 'labor_breaker; labor;', 'labor; labor_breaker off;', 'labor_breaker fails=1000 open=1h; labor header;',
    'labor; labor_breaker fails=1 window=1s open=1s max_open=1s max_ejected=1%;', 'labor policy=round_robin; labor_breaker max_ejected=100%;',
    'labor failure=503;', 'labor failure=400,404,429,500,501,502,503,504,505,599;',
    'labor header policy=weighted half_life=2s failure=500,502;',
    'labor last_byte policy=fastest half_life=10s explore=2% failure=500;',
    'labor; labor_hash $uri;', 'labor_hash $uri; labor;', 'labor policy=least_conn; labor_hash $cookie_id$uri bound=1;',
    'labor; labor_hash $uri bound=100 vnodes=1 slack=1000 secret=0123456789abcdef;', 'labor; labor_hash $uri vnodes=1024 slack=off;',
    'zone z 128k; labor;', 'labor; zone z 128k;',
) {
    my ($good, $said) = $t->config_test(upstream($inside));
    ok $good, "accepted: $inside" or diag $said;
    unlike $said, qr/\[warn\]/, '    without a warning' or diag $said;
}

my ($good, $said) = $t->config_test('labor_zone 1m; ' . upstream('labor;'));
ok $good, 'accepted: labor_zone 1m' or diag $said;

$t->done;
