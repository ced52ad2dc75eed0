# Ten equal servers that fail one answer in a thousand, or in a hundred, at random: that must cost next to nothing. The mean
# response time is within 2 % of least_conn's, measured in turns on the same servers behind the same nginx.
# fails with: policy=round_robin in place of labor (queues of unlucky servers grow; ratio 1.08 to 1.2).
# alone
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
my @names = map { "S$_" } 1 .. 10;
# One request at a time: any imbalance is a queue, and that shows.
$t->model(map { $_ => 'service=const:36ms,k=1' } @names);
my $servers = join ' ', map { "server %%ADDR_$_%%;" } @names;
$t->conf(<<"EOC")->run;
    upstream labor { labor; $servers }
    upstream least_conn { zone lc 256k; least_conn; $servers }
    server {
        listen %%LISTEN%%;
        location /labor { proxy_pass http://labor; }
        location /least_conn { proxy_pass http://least_conn; }
    }
EOC

my @arms = ('labor', 'least_conn');
# 72 % busy: queues form, and drain between two runs.
my %load = (rate => 200, requests => 150);
$t->load(path => "/$_", %load) for @arms;

for my $failing (0.001, 0.01) {
    $t->set(map { $_ => "fail=$failing:500" } @names);
    my (@ratios, %mean);
    for my $round (1 .. 6) {
        # Whoever is first differs from round to round.
        my %seen = map { $_ => $t->load(path => "/$_", %load, seed => $round) } $round % 2 ? @arms : reverse @arms;
        push @ratios, log($seen{labor}{latency_ms}{mean} / $seen{least_conn}{latency_ms}{mean});
        push @{ $mean{$_} }, $seen{$_}{latency_ms}{mean} for @arms;
    }
    my ($sum, $square) = (0, 0);
    $sum += $_ for @ratios;
    my $ratio = $sum / @ratios;
    $square += ($_ - $ratio)**2 for @ratios;
    # One-sided 95 % of Student's t with five degrees of freedom.
    my $bound = 2.015 * sqrt($square / (@ratios - 1) / @ratios);
    # One stall of the machine in one run is a third of the mean: not so of the median.
    my @sorted = sort { $a <=> $b } @ratios;
    my $median = ($sorted[2] + $sorted[3]) / 2;
    diag sprintf '%g failing: median of ratios %.3f, lower bound %.3f; labor %s, least_conn %s', $failing, exp $median,
        exp($ratio - $bound), map { join '/', @{ $mean{$_} } } @arms;
    cmp_ok exp($ratio - $bound), '<', 1.02, "$failing of the answers fail: mean within 2 % of least_conn, with 95 % certainty no worse";
    cmp_ok exp $median, '<', 1.05, "$failing of the answers fail: and close to that as measured";
}

$t->done;
