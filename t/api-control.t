# labor_api: what is set holds for the next pick of every worker, and everything obeys it: the choice of the fastest,
# exploration, trials, retries, backups, and what is done when nobody is left.

use strict;
use warnings;

use Labor::Api;
use Labor::Test;

my $t = Labor::Test->new(workers => 4);
$t->model(A => 'service=const:1ms', B => 'service=const:20ms', C => 'service=const:1ms', S => 'service=const:300ms');
$t->conf(<<'EOC' . Labor::Api::server())->run;
    upstream u {
        labor explore=10%;
        server %%ADDR_A%% max_fails=0;
        server %%ADDR_B%% max_fails=0;
    }
    upstream zoned { zone zoned 256k; labor; server %%ADDR_A%%; server %%ADDR_B%%; server %%ADDR_C%% backup; }
    upstream failing { labor; server %%DEAD%%; server %%DEAD2%%; }
    upstream low { labor; server %%ADDR_A%% down; }
    upstream equal { labor policy=round_robin; server %%ADDR_A%%; server %%ADDR_C%%; }
    upstream slow { labor; server %%ADDR_S%%; }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; }
        location /zoned { proxy_pass http://zoned; }
        location /failing { proxy_pass http://failing; }
        location /low { proxy_pass http://low; }
        location /equal { proxy_pass http://equal; }
        location /slow { proxy_pass http://slow; }
    }
EOC
my $api = Labor::Api->new($t);
my %address = map { $_ => '127.0.0.1:' . $t->port($_) } qw(A B C S);

# Sets, and says when it did not work.
sub set {
    my ($upstream, $server, %what) = @_;
    my ($status, $json) = $api->patch("/upstreams/$upstream/servers/" . ($address{$server} // $server), \%what);
    is $status, 200, "set $upstream $server: " . join ' ', map { "$_=" . ($what{$_} // 'null') } sort keys %what;
    return $json;
}

# Each request on a connection of its own, so that all workers get some.
sub share { my ($count, $path) = @_; my $seen = $t->servers($count, $path); return $seen }

# ---- down, drain, weight 0: no new request from the answer on, whoever picks

is $t->get('/')->status, 200, 'warm';
share(40, '/');
for my $case ([state => 'down'], [state => 'drain'], [weight => 0]) {
    my ($field, $value) = @$case;
    my $json = set(u => 'A', $field => $value);
    is $json->{state}, $field eq 'weight' ? 'drain' : $value, "it is shown to be so";
    my $load = $t->load(rate => 300, requests => 300);
    is_deeply [map { $load->{servers}{$_}{count} // 0 } qw(A B)], [0, 300], "$field=$value: no request in four workers, none lost"
        or diag explain $load->{servers};
    set(u => 'A', $field => undef);
    eventually { share(5, '/')->{A} } "back as configured: requests again";
}

# Set while requests are on their way: those that began before end well.
my $load = $t->load(rate => 300, requests => 750, meanwhile => sub {
    my ($running) = @_;
    wait_for { !$running->() } 0.5;
    $t->{marker} = [$api->patch("/upstreams/u/servers/$address{A}", { state => 'down' })]->[0];
    # What was chosen before the answer is on its way to the server: nothing for 100 ms, and none from then on.
    my $count = sub { $t->stats('A')->{requests} };
    wait_for { $t->{before} = $count->(); select undef, undef, undef, 0.1; $count->() == $t->{before} };
});
is $t->{marker}, 200, 'down in mid-load';
is $t->stats('A')->{requests}, $t->{before}, 'not one request to it after the answer';
is_deeply $load->{statuses}, { 200 => 750 }, 'and no request is lost';
set(u => 'A', state => undef);

# ---- nobody left: an explicit down is not the least bad

set(u => 'A', state => 'down');
set(u => 'B', state => 'drain');
is $t->get('/')->status, 502, 'all taken out: 502 rather than a server that is down';
my ($status) = $api->delete("/upstreams/u/servers/$address{$_}/overrides") for qw(A B);
is $t->get('/')->status, 200, 'overrides deleted: as before';
set(failing => 0, state => 'down');
$t->get('/failing') for 1 .. 20;
is [$api->get('/upstreams/failing')]->[1]{peers}[0]{requests}, 0, 'neither retry nor trial nor fail-open goes to a server that is down';
ok [$api->get('/upstreams/failing')]->[1]{peers}[1]{requests} > 0, 'while the other one is tried';

# ---- backups and zones

set(zoned => $_, state => 'down') for qw(A B);
is_deeply share(8, '/zoned'), { C => 8 }, 'all primary servers down: the backup';
set(zoned => 'C', state => 'drain');
is $t->get('/zoned')->status, 502, 'and when that drains, nobody';
set(zoned => 'B', state => undef);
is_deeply share(8, '/zoned'), { B => 8 }, 'one of them up again';

# ---- up raises what the configuration has down

is $t->get('/low')->status, 502, 'down by configuration';
my $json = set(low => 'A', state => 'up');
is_deeply $json->{labor}{state}, { effective => 'up', configured => 'down', source => 'api' }, 'whose word it is, is shown';
is $t->get('/low')->status, 200, 'up by the interface';
my ($peer) = @{ $t->status->{upstreams}{low}{peers} };
is_deeply [$peer->{state}, $peer->{labor}{state_source}], ['up', 'api'], 'also in the status';

# ---- weights

set(equal => 'A', weight => 9);
my $before = { map { $_ => $t->stats($_)->{requests} } qw(A C) };
share(400, '/equal');
my %got = map { $_ => $t->stats($_)->{requests} - $before->{$_} } qw(A C);
# Turns are exact within a worker: four workers may each be off by less than a cycle of ten.
cmp_ok $got{A}, '>=', 360 - 4 * 9, "weight 9 to 1: $got{A} to $got{C}";
cmp_ok $got{A}, '<=', 360 + 4 * 9, '… neither less nor more';
($peer) = @{ $t->status->{upstreams}{equal}{peers} };
is_deeply $peer->{labor}{weight}, { effective => 9, configured => 1, source => 'api' }, 'weight 9 (api, configured 1)';

# ---- max_conns over all workers, without nginx's zone

set(slow => 'S', max_conns => 3);
my @answers = $t->burst(40, '/slow');
is $t->stats('S')->{max_in_flight}, 3, 'never more than three at once, and as many as that';
ok scalar(grep { $_ && $_->status == 502 } @answers), 'the rest is refused, as with every max_conns';
ok scalar(grep { $_ && $_->status == 200 } @answers) >= 3, 'and three at a time are served';
set(slow => 'S', max_conns => 0);
@answers = $t->burst(40, '/slow');
is scalar(grep { $_ && $_->status == 200 } @answers), 40, '0 is no limit';

# ---- all fields of a request or none

my ($code) = Labor::Api::code($api->patch("/upstreams/equal/servers/$address{C}", { weight => 5, max_conns => -1 }));
is $code, '400 UpstreamBadMaxConns', 'one bad field';
is [$api->get("/upstreams/equal/servers/$address{C}")]->[1]{weight}, 1, '… and nothing is changed';

# ---- statistics

my $requests = sub { return [$api->get('/upstreams/u')]->[1]{peers} };
ok $requests->()->[0]{requests} > 0, 'there is something to forget';
is [$api->delete('/upstreams/u/statistics')]->[0], 204, 'statistics reset';
is_deeply [map { $_->{requests}, $_->{labor}{latency_us}, $_->{labor}{in_flight} } @{ $requests->() }], [(0, undef, 0) x 2], 'counters and curves begin anew';
# Whoever notes events has looked again once it is known since when each server is in its state.
eventually { !grep { !defined $_->{labor}{state_since} } @{ $requests->() } } 'the servers are looked at again';
my %told = map { $_->{reason} => 1 } @{ [$api->get('/upstreams/u')]->[1]{labor}{events} };
ok $told{reset} && !$told{added}, 'what is told is a reset, and no server counts as new';
share(20, '/');
eventually { $requests->()->[0]{labor}{latency_us} } 'and are learned again';
$t->done;
