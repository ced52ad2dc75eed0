# O09: one machine that neither takes nor refuses connections must not stop the clients of the others: they all end up waiting for it.
# fails with policy=round_robin (a third of the requests wait for three seconds: 5 % of the throughput).
# waits
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(map { $_ => 'service=const:20ms' } qw(A B C));
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; server %%ADDR_C%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; proxy_connect_timeout 3s; } }
EOC

my $before = $t->load(concurrency => 30, duration => '4s');
$t->block('A');
my $after = $t->load(concurrency => 30, duration => '8s');
my ($well, $with) = map { $_->{statuses}{200} // 0 } $before, $after;
diag "$well in four seconds before, $with in eight after";
cmp_ok $with / 2, '>', 0.7 * $well, "throughput: $with in eight seconds, $well in four before" or diag explain $after;

$t->done;
