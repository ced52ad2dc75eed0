# T02: a server that had a few slow answers early must be forgiven soon after it became fast.
# fails with: explore=off (A gets nothing any more); policy=round_robin (half of the requests).
# alone
use strict;
use warnings;
use Labor::Test;
use Time::HiRes qw(time);

my $t = Labor::Test->new;
$t->model(A => 'first=4:2s,service=const:5ms', B => 'service=const:60ms');
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

# A has become fast when its fourth answer is out; that may take a while, as it is avoided.
my ($fast, $back, @shares);
my $end = time + 90;
until ($back || time > $end) {
    my $report = $t->load(concurrency => 3, duration => '1s');
    my $requests = $t->stats('A')->{answers};
    $fast //= time if $requests >= 4;
    my $share = ($report->{servers}{A} || {})->{share} // 0;
    push @shares, $share;
    $back = time if $share > 0.8;
}
ok $back, 'A has more than 80 % of the requests again' or diag "@shares";
SKIP: {
    skip 'A never came back', 1 unless $back;
    cmp_ok $back - ($fast // $back), '<', 60, 'within 60 s of becoming fast' or diag "@shares";
}
diag sprintf 'back %.1f s after its fourth answer, %.1f s of load', $back - ($fast // $back), scalar @shares if $back;

$t->done;
