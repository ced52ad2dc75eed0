# O02: the share must follow the speed: 1 ms against 50 ms.
# fails with policy=round_robin (50 %).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => 'service=const:1ms', B => 'service=const:50ms');
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

my $report = $t->load(concurrency => 10, requests => 3000);
is $report->{statuses}{200}, 3000, 'all answered';
cmp_ok $report->{servers}{A}{share}, '>', 0.9, 'the fast server has more than 90 %' or diag explain $report->{servers};
# Ten clients that wait for the slow server half of the time would get a twentieth of what the fast one can do.
cmp_ok $report->{latency_ms}{mean}, '<', 50 / 3, 'and the mean is nearer to the fast one' or diag explain $report->{latency_ms};

$t->done;
