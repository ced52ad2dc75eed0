# labor_check with many servers and workers: one prober over eight workers, also beside a cache manager (O25, O27), probes spread
# over the interval and sockets bounded (O26), and old workers that leave at once (O45).
# fails without: the phase in check::next (a burst a second), set_idle (a socket for every probe), the turns (eight times the probes).
use strict;
use warnings;
use List::Util qw(sum);
use Labor::Test;

use constant { SERVERS => 500, INTERVAL => 3 };

my $t = Labor::Test->new(workers => 8, reload => 0);
$t->model(A => 'service=const:50ms');
my $servers = 'server %%ADDR_A%%;' x SERVERS;
my $interval = INTERVAL . 's';
$t->conf(<<"EOC")->run;
    proxy_cache_path %%DIR%%/cache keys_zone=c:1m;
    upstream u { labor; labor_check interval=$interval; $servers }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; proxy_cache c; } }
EOC

sub counts { return map { $_->{health_checks} } @{ $t->status('upstream=u&fields=health_checks')->{upstreams}{u}{peers} } }
sub checks { return sum(map { $_->{checks} } counts()) }

eventually { !grep { $_->{checks} < 2 } counts() } 'every server is probed', 30;
# From here on everybody has its place in the interval.
$t->reset('A');
my $before = checks();
eventually { checks() >= $before + 3 * SERVERS } 'three rounds', 40;
my $after = checks();
my $stats = $t->stats('A');
my $sent = $stats->{requests};
cmp_ok $sent, '<=', ($after - $before) + SERVERS / 4, "one prober: $sent probes sent, " . ($after - $before) . ' booked';
# At an even pace there are nine at once, all in one instant there would be 64.
cmp_ok $stats->{max_in_flight}, '<=', 32, "spread over the interval: $stats->{max_in_flight} at once";
cmp_ok $stats->{open_connections}, '<=', SERVERS + 64, "no more than a socket for each: $stats->{open_connections}";
cmp_ok $stats->{connections}, '<=', $sent / 2, "which is kept: $stats->{connections} opened for $sent probes";
is sum(map { $_->{fails} } counts()), 0, 'nothing failed';

# Old workers have nothing to wait for: no timer, no connection of a check.
my @old = $t->reload;
eventually { !grep { kill 0 => $_ } @old } 'old workers leave at once', 5;
$before = checks();
eventually { checks() > $before + SERVERS / 2 } 'and the new ones go on';

$t->done;
