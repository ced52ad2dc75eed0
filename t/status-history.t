# waits
# The last quarter of an hour: a point every five seconds of every server, over a reload and a killed worker too.
use strict;
use warnings;
use Labor::Schema;
use Labor::Test;
use List::Util qw(sum0);

my $t = Labor::Test->new;
$t->model(A => 'service=const:5ms', B => 'service=const:50ms');
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC
my $schema = Labor::Schema->new('docs/status.schema.json');

my $status;
sub history {
    $status = $t->status('history=1') or return {};
    return $status->{upstreams}{u}{labor}{history};
}
sub known { my ($server) = @_; return scalar grep { defined } @{ history()->{servers}{$server}{requests} || [] } }
# The requests that stand in it, of all servers.
sub noted { return sum0 map { grep { defined } @{ $_->{requests} } } values %{ history()->{servers} } }

ok !exists $t->status->{upstreams}{u}{labor}{history}, 'not unless asked for';
is history()->{interval}, 5, 'an interval of five seconds';
eventually { known(0) >= 1 } 'the first point', 30;
$t->load(rate => 100, requests => 200);
# What came while no worker looked (several reloads, a long stop) belongs to no interval: that is allowed to be missing.
my $sent = 200;
eventually { $sent += keys %{ $t->servers(1) }; noted() >= 1 } 'its requests are noted', 30;
cmp_ok noted(), '<=', $sent, 'and none twice';
my ($points, $sum) = (known(0), noted());

$t->reload;
my ($worker) = $t->workers;
$t->kill_worker($worker);
wait_for { !grep { $_ == $worker } $t->workers };
eventually { known(0) > $points } 'it goes on after a reload and without a worker', 40;
cmp_ok noted(), '>=', $sum, 'and what was noted is still there';
my $history = history();
is_deeply [$schema->errors($status)], [], 'as the schema describes it' or diag explain [$schema->errors($status)];
is_deeply [sort keys %{ $history->{servers} }], [0, 1], 'every server by its id';
my %length = map { scalar(@{ $_->{requests} }) => 1, scalar(@{ $_->{latency_us} }) => 1 } values %{ $history->{servers} };
is scalar keys %length, 1, 'all lists have the same length';
my $age = $status->{timestamp} - $history->{end};
ok $age >= 0 && $age <= 10_000, 'they end a moment ago' or diag $age;
my ($a, $b) = map { (grep { defined } @{ $history->{servers}{$_}{latency_us} })[-1] } 0, 1;
cmp_ok $a, '<', $b, 'the latency of the faster server is the smaller';

$t->done;
