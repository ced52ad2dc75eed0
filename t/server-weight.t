# policy=round_robin follows the weights smoothly and from the first request on, however noisy the servers' times are.
# `labor` among equals is field-o11.t's.
use strict;
use warnings;
use Labor::Test;

# The rotation among ties is exact within one worker; nothing may be restarted.
my $t = Labor::Test->new(workers => 1, reload => 0);
my %weight = (A => 1, B => 2, C => 7);
$t->model(map { $_ => 'service=const:5ms' } sort keys %weight);
$t->conf(<<'EOC')->run;
    upstream rr {
        labor policy=round_robin;
        server %%ADDR_A%%;
        server %%ADDR_B%% weight=2;
        server %%ADDR_C%% weight=7;
    }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://rr; }
    }
EOC

my $window = 20;
my @picks = map { $t->get('/')->header('X-Server') // '-' } 1 .. 100;
my ($worst, $where) = (0, '');
for my $from (0 .. @picks - $window) {
    for my $server (sort keys %weight) {
        my $count = grep { $_ eq $server } @picks[$from .. $from + $window - 1];
        my $error = abs($count - $window * $weight{$server} / 10);
        ($worst, $where) = ($error, "$server has $count of $window from pick $from on") if $error > $worst;
    }
}
cmp_ok $worst, '<=', 2, "weights 1, 2, 7: in any $window picks nobody is off by more than two" or diag "$where\n@picks";

$t->done;
