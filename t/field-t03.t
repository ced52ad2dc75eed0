# T03: a server that joins cold must not get a full share at once, however idle it looks, and must get it when it is warm.
# As its first answers are slow, only the budget for exploring asks for the others: a second or two of latency at one per cent.
# fails without: slow_start and caps (C gets half of the first second).
# waits
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => 'service=const:30ms', B => 'service=const:30ms', C => 'first=12:200ms,service=const:10ms');

sub conf {
    my $servers = join ' ', map { "server %%ADDR_$_%%;" } @_;
    return "upstream u { labor slow_start=10s; $servers }\nserver { listen %%LISTEN%%; location / { proxy_pass http://u; } }\n";
}
$t->conf(conf('A', 'B'))->run;
$t->load(concurrency => 16, duration => '2s');
is_deeply [map { $_->{ramp} } $t->peers('u')], [1, 1], 'nobody is led where all are new';

$t->conf(conf('A', 'B', 'C'))->reload;
my (@shares, @states);
my $largest = wait_for {
    my $cold = $t->stats('C')->{answers} < 12;
    my $servers = $t->load(concurrency => 16, duration => '1s')->{servers};
    my %share = map { $_ => ($servers->{$_} || {})->{share} // 0 } qw(A B C);
    my ($c) = grep { $_->{server} eq $t->expand('%%ADDR_C%%') } $t->peers('u');
    push @shares, [$share{C}, $cold];
    push @states, $c->{state};
    $share{C} > $share{A} && $share{C} > $share{B};
} 60;
my @figures = map { sprintf '%.3f%s', $_->[0], $_->[1] ? ' cold' : '' } @shares;
ok $largest, 'its share is the largest in the end' or diag "@figures";
cmp_ok $shares[0][0], '<', 0.1, 'it begins small';
ok !grep({ $_->[1] && $_->[0] > 1 / 3 } @shares), 'and has no more than a third while it is cold';
ok $shares[0][0] > 0, 'but it has some from the first second on';
is $states[0], 'ramping', 'the status says so';
cmp_ok scalar(@shares), '<', 30, 'it is warm within half a minute';
diag "@figures";

$t->done;
