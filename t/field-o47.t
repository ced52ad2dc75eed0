# O47: a client that leaves must not make a hanging server look fast: the time it waited is a lower bound.
# fails with nginx's round robin (half of the requests time out) and, in the second figure, with its least_conn.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => 'hang', B => 'service=const:30ms');
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

my $report = $t->load(concurrency => 2, requests => 200, timeout => '300ms');
my $late = $report->{errors}{timeout} // 0;
cmp_ok $late, '<', 30, 'fewer than 15 % of the requests time out';
cmp_ok $late, '<', 18, 'and fewer than with least connections, where one client is always stuck';
is $report->{statuses}{200}, 200 - $late, 'all others are answered' or diag explain $report;
diag "$late of 200 timed out";
my ($a) = $t->peers('u');
ok wait_for { ($a) = $t->peers('u'); $a->{aborts} }, 'that the clients left is counted';
ok !defined $a->{latency_us} || $a->{latency_us} > 100_000, 'and never as a short time' or diag explain $a;

$t->done;
