# labor_api with `sticky` (nginx 1.29.6): a server that drains keeps its sessions and gets no new ones; one that is down loses
# them at once.

use strict;
use warnings;

use Labor::Api;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
$t->needs('sticky');
$t->model(A => 'service=const:2ms', B => 'service=const:20ms');
$t->conf(<<'EOC' . Labor::Api::server())->run;
    upstream u { zone u 256k; labor; server %%ADDR_A%%; server %%ADDR_B%%; sticky cookie sid; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC
my $api = Labor::Api->new($t);
my $path = '/upstreams/u/servers/127.0.0.1:' . $t->port('A');

# A session that began at A.
my $cookie;
wait_for {
    my $answer = $t->get('/');
    ($cookie) = ($answer->header('Set-Cookie') // '') =~ /^(sid=[^;]+)/;
    ($answer->header('X-Server') // '') eq 'A' && $cookie;
};
ok $cookie, 'a session with A';
my $session = sub {
    my %seen;
    $seen{ $t->get('/', headers => [Cookie => $cookie])->header('X-Server') // 'none' }++ for 1 .. 12;
    return \%seen;
};
for my $case ([state => 'drain'], [weight => 0]) {
    my ($field, $value) = @$case;
    is [$api->patch($path, { $field => $value })]->[0], 200, "$field=$value";
    is_deeply $session->(), { A => 12 }, '… its session goes on';
    is_deeply $t->servers(20), { B => 20 }, '… and new ones begin elsewhere';
    is [$api->patch($path, { $field => undef })]->[0], 200, 'as configured again';
}
is [$api->patch($path, { state => 'down' })]->[0], 200, 'down';
is_deeply $session->(), { B => 12 }, '… its session, too, is served elsewhere';
is [$api->patch($path, { state => 'up' })]->[0], 200, 'up';
eventually { $t->servers(5)->{A} } 'new sessions begin there again';
$t->done;
