# O24: after a reload each proxy begins somewhere else in its list, not at the first server. O45: old workers go at once, however often, and
# take nothing along: neither memory nor descriptors, with checks, breakers and ramps.
# fails without: the random phase of the rotation (the first server has all fifty), exit_process in health.rs (descriptors grow).
use strict;
use warnings;
use List::Util qw(max);
use Labor::Fire qw(footprint);
use Labor::Test;

my $t = Labor::Test->new(workers => 1, reload => 0);
my @names = qw(A B C D E);
$t->model(map { $_ => '' } @names);
my $servers = join ' ', map { "server %%ADDR_$_%%;" } @names;
$t->conf(<<"EOC")->run;
    upstream u { labor policy=least_conn; $servers }
    upstream w { labor slow_start=5s; labor_breaker; labor_check interval=100ms; $servers }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } location /w { proxy_pass http://w; } }
EOC

my (%first, @slow, $begin);
for my $round (1 .. 50) {
    my @old = $t->reload;
    my $answer = $t->get('/');
    $first{ $answer->header('X-Server') // 'none' }++;
    $t->get('/w');
    push @slow, $round unless wait_for { !grep { kill 0 => $_ } @old } 2;
    # What a process needs once it has after ten.
    $begin = footprint($t) if $round == 10;
}
my $end = footprint($t);
is join(' ', @slow), '', 'old workers are gone within two seconds, fifty times';
# By chance, one of five has more than half of fifty once in some ten million runs.
cmp_ok max(values %first), '<=', 25, 'the first request after a reload goes anywhere' or diag explain \%first;
is join(' ', grep { !/^[A-E]$/ } keys %first), '', 'and is answered';
cmp_ok $end->{files}, '<=', $begin->{files} + 2, "descriptors: $begin->{files} after ten reloads, $end->{files} after fifty";
SKIP: {
    skip 'memory is not what it is under a sanitizer', 2 if $ENV{ASAN_OPTIONS};
    cmp_ok $end->{master}, '<', $begin->{master} + 1500, "memory of the master: $begin->{master} kB, $end->{master} kB";
    cmp_ok $end->{workers}, '<', $begin->{workers} + 3000, "memory of the worker: $begin->{workers} kB, $end->{workers} kB";
}

$t->done;
