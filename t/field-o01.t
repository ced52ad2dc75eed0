# O01: a burst must spread by requests in flight, not fall as a whole on the server that is the best at that moment.
# fails with ip_hash in place of labor (all 90 on one server).
use strict;
use warnings;
use Labor::Test;

# One worker: what is tested is the choice, not how nginx accepts.
my $t = Labor::Test->new(workers => 1);
$t->model(A => 'service=const:10ms', B => 'service=const:11ms', C => 'service=const:12ms');
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; server %%ADDR_C%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

sub burst_spreads {
    my ($what, $least, $most) = @_;
    my %seen;
    $seen{ $_ ? $_->header('X-Server') // $_->status : 'none' }++ for $t->burst(90);
    is_deeply [sort keys %seen], [qw(A B C)], "$what: all answered, by all" or diag explain \%seen;
    for (qw(A B C)) { ok $seen{$_} >= $least && $seen{$_} <= $most, "$what: $_ takes its part" or diag explain \%seen }
    return;
}

burst_spreads('nothing known yet', 20, 40);
# Light traffic shows which is the fastest, and of how they do under load only what chance brought: that spreads less evenly.
$t->load(rate => 50, requests => 150);
burst_spreads('the fastest is known', 5, 68);

$t->done;
