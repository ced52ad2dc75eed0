# O11: weights hold from the first request, and smoothly: 1, 2, 7, in any 20 picks in a row at most 2 off.
# fails without the weights, and with nginx's `random`.
# alone
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(workers => 1);
my %weight = (A => 1, B => 2, C => 7);
# Long enough for the delays of a busy machine to stay below the 5 % that count as noise in any case.
$t->model(map { $_ => 'service=const:100ms' } keys %weight);
my $servers = join ' ', map { "server %%ADDR_$_%% weight=$weight{$_};" } sort keys %weight;
$t->conf(<<"EOC")->run;
    upstream default { labor; $servers }
    upstream fixed { labor policy=round_robin; $servers }
    upstream least { labor policy=least_conn; $servers }
    server {
        listen %%LISTEN%%;
        location /default { proxy_pass http://default; }
        location /fixed { proxy_pass http://fixed; }
        location /least { proxy_pass http://least; }
    }
EOC

for my $path (qw(default fixed least)) {
    my @picks = map { $t->get("/$path")->header('X-Server') // '-' } 1 .. 60;
    for my $name (sort keys %weight) {
        my ($worst, $expected) = (0, 20 * $weight{$name} / 10);
        for my $from (0 .. @picks - 20) {
            my $off = abs($expected - grep { $_ eq $name } @picks[$from .. $from + 19]);
            $worst = $off if $off > $worst;
        }
        cmp_ok $worst, '<=', 2, "$path: $name is at most 2 off in any 20 picks" or diag "@picks";
    }
}

$t->done;
