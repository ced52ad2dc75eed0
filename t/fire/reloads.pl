# Reloads, killed workers, shutdown in mid-request and a full zone, all under load:
#
#     RELOADS=1000 perl -It/lib t/fire/reloads.pl
#
# Prints what was counted. Nothing may fail but what a killed worker had in its hands; nothing may be left behind.

use strict;
use warnings;

use Labor::Test;
use Labor::Fire qw(shapes footprint in_flight signals);
use Labor::Util qw(group_members);

alarm 7200;
my $reloads = $ENV{RELOADS} || 60;
my $t = Labor::Test->new(reload => 0);
my $CONCURRENCY = 8;
$t->model(map({ ("S$_" => 'service=const:3ms') } 1 .. 6), H => 'service=const:60s');
my @shapes = shapes();
$t->conf($shapes[1])->run;
my $kills = 0;

# shaken(REQUESTS, ROUNDS, SHAKE): load while SHAKE is called ROUNDS times.
sub shaken {
    my ($rounds, $shake) = @_;
    my ($done, %sum) = (0, count => 0, error_count => 0, other => 0);
    while ($done < $rounds) {
        my $report = $t->load(concurrency => $CONCURRENCY, duration => '5s', timeout => '10s', meanwhile => sub {
            my ($running) = @_;
            while ($done < $rounds && $running->()) { $shake->($done++) }
            wait_for { !$running->() } 15 if $done >= $rounds;
        });
        $sum{$_} += $report->{$_} for qw(count error_count);
        $sum{other} += $report->{statuses}{$_} for grep { $_ != 200 } keys %{ $report->{statuses} };
    }
    return \%sum;
}

# Every shape after every other: the steps between them grow from round to round.
my ($at, $step) = (1, 1);
sub next_shape {
    my ($round) = @_;
    $at = ($at + $step) % @shapes;
    $step = $step % (@shapes - 1) + 1 unless ($round + 1) % @shapes;
    return $t->conf($shapes[$at])->reload;
}
sub processes { return scalar(my @all = group_members($t->nginx->pid)) }
sub settle { $t->conf($shapes[2])->reload; return wait_for { processes() == 1 + (my @serving = $t->workers) } 15 }

# 1. Reloads.
shaken(2 * @shapes, \&next_shape);
ok settle(), 'the first reloads leave no old worker';
my $before = footprint($t);
my $sum = shaken($reloads, \&next_shape);
ok settle(), "$reloads reloads leave no old worker";
my $after = footprint($t);
is $sum->{error_count} + $sum->{other}, 0, "$reloads reloads over " . @shapes . " shapes: none of $sum->{count} requests failed";
is scalar signals($t), 0, 'no process died';
is $after->{files}, $before->{files}, "files open in the master: $before->{files} before, $after->{files} after";
# Malloc may keep what a larger shape took; a leak of a page a reload is more. Sanitizers hold back what was freed.
SKIP: {
    skip 'memory is not what it is under a sanitizer', 2 if $ENV{ASAN_OPTIONS};
    cmp_ok $after->{master}, '<=', $before->{master} + 1024 + 2 * $reloads,
        "memory of the master: $before->{master} kB before, $after->{master} kB after";
    cmp_ok $after->{workers}, '<=', $before->{workers} * 1.25 + 2048,
        "memory of the workers: $before->{workers} kB before, $after->{workers} kB after";
}
eventually { in_flight($t) == 0 } 'nothing is counted in flight';

# 2. Idle: old workers leave at once.
my $slow = 0;
for (1 .. 10) {
    my @old = $t->reload;
    $slow++ unless $t->wait_gone(\@old, 2);
}
is $slow, 0, '10 reloads without load: old workers are gone within 2 s';

# 3. Workers killed at random, reloads between.
my $rounds = int($reloads / 4) || 1;
$sum = shaken($rounds, sub {
    my ($round) = @_;
    next_shape($round) if $round % 3 == 0;
    my @workers = $t->workers;
    $kills++ if $t->kill_worker($workers[rand @workers]);
});
is $sum->{other}, 0, "$kills workers killed: every answer was a 200, of $sum->{count} requests";
cmp_ok $sum->{error_count}, '<=', $kills * $CONCURRENCY,
    "$sum->{error_count} requests broken off, at most $CONCURRENCY to a killed worker";
is scalar signals($t), $kills, 'as many processes died as were killed';
ok settle(), 'no old worker is left';
eventually { in_flight($t) == 0 } 'nothing is counted in flight after that';
is $t->load(concurrency => 4, requests => 200)->{statuses}{200}, 200, 'serves';

# 4. Workers that must leave while requests hang.
$t->conf('upstream h { labor; server %%ADDR_H%%; } server { listen %%LISTEN%%; location / { proxy_pass http://h; } }',
    main => 'worker_shutdown_timeout 1s;')->reload;
my @held = map { my $c = $t->connection; $c->write(Labor::HTTP::format('/')); $c } 1 .. 20;
eventually { in_flight($t, 'h') == 40 } '20 requests hang, counted in flight and connected';
my @old = $t->reload;
ok $t->wait_gone(\@old, 10), 'worker_shutdown_timeout: workers with hanging requests leave';
eventually { in_flight($t, 'h') == 0 } 'and what they had in flight is counted no more';
$_->close for @held;

# 5. A zone too small for what comes and goes: it has room for one list, and each reload brings other servers.
sub crowd {
    my ($round, $size) = @_;
    my $servers = join ' ', map { "server 127.0.1.$round:$_ down;" } 20001 .. 20200;
    return "labor_zone $size; upstream u { labor; server %%ADDR_S1%%; server %%ADDR_S2%%; $servers }"
        . ' server { listen %%LISTEN%%; location / { proxy_pass http://u; } }';
}
my ($needed) = $t->config_error(crowd(1, '32k')) =~ /(\d+) bytes needed for 202 servers/;
ok $needed, 'a zone too small for its list is refused, with the size it takes';
my ($answered, $used, $most) = (0, 0, 1);
for my $round (1 .. 5) {
    $t->conf(crowd($round, $needed))->reload;
    $answered += $t->load(concurrency => $CONCURRENCY, requests => 400)->{statuses}{200} // 0;
    ($used, $most) = @{ $t->status->{zone} }{qw(peers_used peers_max)};
}
is $answered, 2000, 'five lists of 202 servers through a zone for one: all of 2000 requests answered';
eventually { $t->error_log =~ /labor: zone is full/ } "it says that it is full ($used of $most records taken)";

note "reloads: $reloads, kills: $kills";
$t->done;
