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
my $attempts = 5;
my $upstreams = join "\n    ", map { "upstream default$_ { labor; $servers }" } 1 .. $attempts;
my $locations = join "\n        ", map { "location /default$_ { proxy_pass http://default$_; }" } 1 .. $attempts;
$t->conf(<<"EOC")->run;
    $upstreams
    upstream fixed { labor policy=round_robin; $servers }
    upstream least { labor policy=least_conn; $servers }
    server {
        listen %%LISTEN%%;
        $locations
        location /fixed { proxy_pass http://fixed; }
        location /least { proxy_pass http://least; }
    }
EOC

# The most that any 20 picks in a row are off, by server.
sub off {
    my (@picks) = @_;
    my %worst;
    for my $name (sort keys %weight) {
        my ($worst, $expected) = (0, 20 * $weight{$name} / 10);
        for my $from (0 .. @picks - 20) {
            my $off = abs($expected - grep { $_ eq $name } @picks[$from .. $from + 19]);
            $worst = $off if $off > $worst;
        }
        $worst{$name} = $worst;
    }
    return \%worst;
}

# policy=fastest goes by what the servers take: where the machine stalls one of them, its weight is not all that counts. Then
# another attempt on a fresh upstream tells; without weights none would ever hold.
my %attempts = (default => [map { "/default$_" } 1 .. $attempts], fixed => ['/fixed'], least => ['/least']);
for my $name (sort keys %attempts) {
    my $off;
    for my $path (@{ $attempts{$name} }) {
        my @picks = map { $t->get($path)->header('X-Server') // '-' } 1 .. 60;
        $off = off(@picks);
        last if !grep { $_ > 2 } values %$off;
        diag "$path: @picks";
    }
    cmp_ok $off->{$_}, '<=', 2, "$name: $_ is at most 2 off in any 20 picks" for sort keys %weight;
}

$t->done;
