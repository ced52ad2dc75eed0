# waits
# What is set at run time, as the status tells it: weights and limits with what was before and whose word it is (T12, O18), servers
# that drain while requests are still on them (T11), statistics that begin anew. Each is told once.
use strict;
use warnings;

use Labor::Api;
use Labor::HTTP;
use Labor::Schema;
use Labor::Test;

my $t = Labor::Test->new(workers => 2, reload => 0);
$t->model(A => 'service=const:1ms', B => 'service=const:1ms', S => 'service=const:1500ms', F => 'service=const:1ms');
sub conf {
    my ($weight) = @_;
    return <<"EOC" . Labor::Api::server();
    upstream u { labor policy=round_robin; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream own { labor; server %%ADDR_F%% weight=$weight; server %%ADDR_B%% weight=2; }
    upstream slow { labor; server %%ADDR_S%% max_fails=0; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } location /own { proxy_pass http://own; } location /slow { proxy_pass http://slow; } }
EOC
}
$t->conf(conf(2))->run;
my $api = Labor::Api->new($t);
my $schema = Labor::Schema->new('docs/status.schema.json');
my %address = map { $_ => '127.0.0.1:' . $t->port($_) } qw(A B S F);

sub labor { my ($upstream) = @_; my $status = $t->status or return {}; return $status->{upstreams}{$upstream}{labor} }
sub peer { my ($upstream, $server) = @_; return (grep { $_->{server} eq $address{$server} } $t->peers($upstream))[0] || {} }
# What the status tells of a server, oldest first: "reason: detail".
sub told {
    my ($upstream, $server) = @_;
    my @events = grep { !$server || ($_->{server} // '') eq $address{$server} } @{ labor($upstream)->{events} };
    return reverse map { "$_->{reason}: " . ($_->{detail} // '') } grep { $_->{reason} !~ /^(?:slower|faster)$/ } @events;
}
sub set {
    my ($upstream, $server, %what) = @_;
    my ($status) = $api->patch("/upstreams/$upstream/servers/$address{$server}", \%what);
    is $status, 200, "$upstream $server: " . join ' ', map { "$_=" . ($what{$_} // 'null') } sort keys %what;
}
sub setting { my ($effective, $configured, $source) = @_; return { effective => $effective, configured => $configured, source => $source } }

eventually { defined peer(u => 'A')->{state_since} && defined peer(slow => 'S')->{state_since} } 'somebody looks after the states';
my @workers = sort $t->workers;

# ---- T12: weight 1, 5, 0, 1 at equal latency

for my $case ([5, 250], [0, 0], [1, 150]) {
    my ($weight, $expected) = @$case;
    set(u => 'A', weight => $weight);
    my $before = $t->stats('A')->{requests};
    my $load = $t->load(rate => 400, requests => 300);
    is_deeply $load->{statuses}, { 200 => 300 }, 'none is lost';
    my $got = $t->stats('A')->{requests} - $before;
    # Turns are exact within a worker, which may stand anywhere in its cycle of six at either end.
    cmp_ok abs($got - $expected), '<=', $weight ? @workers * 6 : 0, "weight $weight: $got of 300 to it, from the answer on";
    is_deeply peer(u => 'A')->{weight}, setting($weight, 1, 'api'), 'as the status has it';
    eventually { grep { /^weight: weight $weight, was \d \(api\)$/ } told(u => 'A') } 'and tells it';
}
my ($status, $json) = $api->patch("/upstreams/u/servers/$address{A}", { weight => 65536 });
is $status, 400, 'a bad value is refused';
set(u => 'A', max_conns => 7);
eventually { (told(u => 'A'))[-1] eq 'max_conns: max_conns 7, was unlimited (api)' } 'a limit is told';
set(u => 'A', max_conns => undef, weight => undef);
eventually { (told(u => 'A'))[-1] eq 'max_conns: max_conns unlimited, was 7 (configuration)' } 'and that it is as configured again';
is_deeply peer(u => 'A')->{weight}, setting(1, 1, 'configuration'), 'both are';
is_deeply [told(u => 'A')], [
    'weight: weight 5, was 1 (api)', 'drained: by api', 'weight: weight 0, was 5 (api)', 'up: by api', 'weight: weight 1, was 0 (api)',
    'max_conns: max_conns 7, was unlimited (api)', 'max_conns: max_conns unlimited, was 7 (configuration)',
], 'each change once, and nothing else' or diag explain [told(u => 'A')];
is_deeply [sort $t->workers], \@workers, 'by the same workers';

# ---- O18: two that set the weight do not fight; what holds, what is configured and each factor are shown

$t->get('/own') for 1 .. 40;
set(own => 'F', weight => 3);
is_deeply peer(own => 'F')->{weight}, setting(3, 2, 'api'), 'the API over the configuration';
eventually { ((told(own => 'F'))[-1] // '') eq 'weight: weight 3, was 2 (api)' } 'which is told';
$t->conf(conf(4))->reload;
eventually { peer(own => 'F')->{weight}{configured} == 4 } 'the configuration says something else';
eventually { grep { /^reload/ } told('own') } 'a reload is told';
is_deeply peer(own => 'F')->{weight}, setting(3, 4, 'api'), 'the API still stands';
is_deeply [told(own => 'F')], ['weight: weight 3, was 2 (api)'], 'so nothing has changed';
for my $peer ($t->peers('own')) {
    my $sum = 0;
    $sum += $_ for values %{ $peer->{factors} };
    ok abs($sum - $peer->{score}) < 1e-3, 'the score is the sum of its factors' or diag explain $peer;
}
is [$api->delete("/upstreams/own/servers/$address{F}/overrides")]->[0], 200, 'the word of the API is taken back';
eventually { (told(own => 'F'))[-1] eq 'weight: weight 4, was 3 (configuration)' } 'the configuration holds';
my $metrics = $t->http(GET => '/x.prom', port => $t->port('_STATUS'))->body;
like $metrics, qr/^labor_server_weight\{upstream="own",server="$address{F}"\} 4$/m, 'in the metrics, too (O36)';

# ---- T11: a server drains while requests are on it

my $running = $t->connection($t->port);
$running->write(Labor::HTTP::format('/slow'));
eventually { peer(slow => 'S')->{in_flight} == 1 } 'a request is on its way';
set(slow => 'S', state => 'drain');
my ($shown) = grep { $_->{server} eq $address{S} } @{ $t->status->{upstreams}{slow}{peers} };
is_deeply [@$shown{qw(state active requests)}, $shown->{labor}{state}, $shown->{labor}{state_source}], ['draining', 1, 1, 'drain', 'api'],
    'the server drains and has that request';
is $t->get('/slow')->status, 502, 'a new one is not sent to it';
is $running->read_answer->status, 200, 'the running one ends well';
eventually { my $peer = peer(slow => 'S'); $peer->{in_flight} == 0 && $peer->{connections} == 0 } 'and nothing is left on it';
eventually { ((told(slow => 'S'))[-1] // '') eq 'drained: by api' } 'it is told';
($shown) = grep { $_->{server} eq $address{S} } @{ $t->status->{upstreams}{slow}{peers} };
is_deeply [$shown->{requests}, $shown->{responses}{'2xx'}], [1, 1], 'one request, one answer';

# ---- statistics begin anew

is [$api->delete('/upstreams/own/statistics')]->[0], 204, 'forget';
is_deeply [(told('own'))[-1]], ['reset: by api'], 'it is told at once';
my $at = $t->status->{timestamp};
eventually { my $since = peer(own => 'F')->{state_since}; defined $since && $t->status->{timestamp} - $at > 2000 } 'looked at twice since';
is_deeply [grep { /^(?:added|removed|up)/ } told('own')], [], 'servers that are forgotten have not come or gone' or diag explain [told('own')];
is_deeply [$schema->errors($t->status)], [], 'as the schema describes it';
$t->done;
