# T02: a server that had a few slow answers early must be forgiven soon after it became fast.
# fails with: explore=off (A gets nothing any more).
# waits
use strict;
use warnings;
use Labor::Test;
use Time::HiRes qw(time);

# Reloads are welcome: what was saved for exploring is not the worker's own (28 s; 67 s when it was).
my $t = Labor::Test->new;
$t->model(A => 'first=4:2s,service=const:5ms', B => 'service=const:60ms');
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

# Eight at once, half of them to A as nobody is known, or one more or less where workers pick in the same microsecond.
$t->load(burst => 8);
cmp_ok abs($t->stats('A')->{answers} - 4), '<=', 1, 'A gave its slow answers, all but one at least';
my $fast = time;
my @shares;
my $back = wait_for {
    my $report = $t->load(concurrency => 3, duration => '1s');
    push @shares, ($report->{servers}{A} || {})->{share} // 0;
    $shares[-1] > 0.8;
} 90;
ok $back, 'A has more than 80 % of the requests again' or diag "@shares";
cmp_ok time - $fast, '<', 60, 'within 60 s of becoming fast';
diag sprintf 'after %.1f s', time - $fast;

$t->done;
