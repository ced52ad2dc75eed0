# Parameters that newer nginx has: `resolve` with nothing resolved, `drain`.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->needs('resolve');
$t->model(A => '', B => '');
my $drain = $t->has('sticky') ? 'drain' : 'down';

# Nobody answers at the resolver's address: the list stays empty.
$t->conf(<<"EOC")->run;
    resolver 127.0.0.1:%%PORT_resolver%% valid=1s;
    resolver_timeout 1s;
    log_format v '\$uri;\$status;\$upstream_addr;\$labor_reason';
    access_log %%DIR%%/access.log v;
    upstream empty { zone empty 256k; labor; server labor.invalid:80 resolve; }
    upstream fallback { zone fallback 256k; labor; server labor.invalid:80 resolve; server %%ADDR_A%% backup; }
    upstream mixed { zone mixed 256k; labor; server labor.invalid:80 resolve; server %%ADDR_A%%; }
    upstream drained { zone drained 256k; labor; server %%ADDR_A%% $drain; server %%ADDR_B%%; }
    server {
        listen %%LISTEN%%;
        location /empty { proxy_pass http://empty; }
        location /fallback { proxy_pass http://fallback; }
        location /mixed { proxy_pass http://mixed; }
        location /drained { proxy_pass http://drained; }
    }
EOC

is_deeply $t->servers(5, '/empty'), { 'status 502' => 5 }, 'an empty list: 502, no crash';
my @lines = grep { m{^/empty;} } $t->lines('access.log', 5);
is((split /;/, $lines[0])[2], 'empty', '$upstream_addr is the name of the upstream');
is_deeply $t->servers(5, '/fallback'), { A => 5 }, 'an empty list with a backup: the backup';
is_deeply $t->servers(5, '/mixed'), { A => 5 }, 'beside a resolved server: that one';
is_deeply $t->servers(10, '/drained'), { B => 10 }, "$drain: no new requests";
ok ref $t->status, 'labor_status shows empty lists';

$t->done;
