# T15: two equal servers whose response time depends on their load share it evenly and calmly: no swings, no frozen ratio.
# fails with: per_inflight=1ms on one of them (shares leave 40 to 60 %).
# waits
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(map { $_ => 'service=const:5ms,per_inflight=5ms' } 'A', 'B');
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

my $seconds = 20;
my $report = $t->load(concurrency => 20, duration => "${seconds}s", timeline => '1s');
is $report->{error_count}, 0, 'no error';
# The rest after the last whole second is a handful of requests.
my @shares = map { $_->{shares}{A} // 0 } grep { $_->{at} < $seconds } @{ $report->{timeline} };
is scalar(@shares), $seconds, 'every second is looked at';
my @out = grep { $_ < 0.4 || $_ > 0.6 } @shares;
is scalar(@out), 0, 'in every second the share is between 40 and 60 %' or diag "@shares";
my @moves = sort { $a <=> $b } map { abs($shares[$_] - $shares[$_ - 1]) } 1 .. $#shares;
cmp_ok $moves[-1], '<', 0.1, 'it never moves by ten points from one second to the next' or diag "@shares";
my $sum = 0;
$sum += $_ for @moves;
cmp_ok $sum / @moves, '<', 0.02, 'and by less than two points a second on average' or diag "@shares";

$t->done;
