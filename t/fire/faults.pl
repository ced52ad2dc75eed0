# What nginx does not get: memory, connections, files; and clocks that jump.
#
#     LABOR_PRELOAD=build/fire/faults.so perl -It/lib t/fire/faults.pl
#
# Each time a clean error or a fallback, never a death, nothing counted for ever, and all well afterwards.

use strict;
use warnings;

use Labor::Fire qw(in_flight signals);
use Labor::Nginx;
use Labor::Test;
use Labor::Util qw(spill slurp);

alarm 1200;
my $shim = $ENV{LABOR_PRELOAD} or die "LABOR_PRELOAD is not set: scripts/fire faults builds the library\n";
my $t = Labor::Test->new(reload => 0);
my $control = $t->dir . '/faults';

# faults(WORD => NUMBER, …): what goes wrong from now on; everything else does not.
sub faults {
    my %with = @_;
    open my $file, '+<', $control or die "$control: $!";
    syswrite $file, pack 'QQQqq', map { $with{$_} // 0 } qw(every at failed wall monotonic);
    return;
}
sub failed { return (unpack 'QQQqq', slurp($control))[2] }
spill($control, pack 'QQQqq', (0) x 5);
faults();

$t->model(A => 'service=const:2ms', B => 'service=const:2ms,body=200k', H => 'service=const:300ms');
# Started with the library; the model servers without.
$ENV{LABOR_FAULTS} = $control;
my $plain = Labor::Nginx::binary();
my $wrapped = $t->dir . '/nginx';
spill($wrapped, "#!/bin/sh\nLD_PRELOAD='$shim' exec '$plain' \"\$@\"\n");
chmod 0755, $wrapped;
Labor::Nginx::version_text();
$ENV{LABOR_NGINX} = $wrapped;

my $conf = <<'EOC';
    labor_state %%DIR%%/state;
    upstream u { labor; labor_check interval=200ms timeout=150ms; server %%ADDR_A%%; server %%ADDR_B%%; keepalive 4; }
    upstream z { zone z 128k; labor header policy=weighted; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream h { labor; server %%ADDR_H%%; server %%ADDR_A%%; }
    server {
        listen %%LISTEN%%;
        location /u { proxy_pass http://u; }
        location /z { proxy_pass http://z; add_header X-L "$labor_response_time $labor_header_time" always; }
        location /h { proxy_pass http://h; }
        location /api { labor_api; }
        location /status { labor_status; }
    }
EOC

# 1. Each allocation of reading the configuration fails once.
my ($n, $refused, $died, $through) = (0, 0, 0, 0);
while (1) {
    faults(at => ++$n);
    my ($good, $said) = $t->config_test($conf);
    my $ended = $?;
    last unless failed();
    if ($ended & 127 || $ended >> 8 > 1) { $died++; diag "allocation $n: ended with $ended: " . substr $said, -300 }
    elsif ($good) { $through++ }
    else { $refused++ }
    last if $n > 20000;
}
faults();
is $died, 0, ($n - 1) . " allocations of nginx -t failed, one a run: refused $refused times, did without $through times";
cmp_ok $n, '>', 50, 'they were failed at all';

# 2. Under load.
$t->conf($conf)->run;
sub well {
    my ($what) = @_;
    faults();
    for my $path (qw(/u /z)) {
        is $t->load(path => $path, concurrency => 4, requests => 200)->{statuses}{200}, 200, "$what: $path serves as before";
    }
    eventually { in_flight($t) == 0 } "$what: nothing is counted in flight";
    is scalar signals($t), 0, "$what: no process died" or diag join "\n", signals($t);
    return;
}
# What the requests came to, in a line.
sub outcome {
    my ($report) = @_;
    my ($statuses, $errors) = @{$report}{qw(statuses errors)};
    return join ', ', map({ "$_: $statuses->{$_}" } sort keys %$statuses), map { "$_: $errors->{$_}" } grep { $errors->{$_} } sort keys %$errors;
}
$t->allow(qr/\[(?:emerg|crit|alert)\].*(?:malloc|memalign|Cannot allocate memory)/);
for my $every (1000, 101, 23, 7, 3, 2) {
    faults(every => $every);
    my @reports = map { $t->load(path => $_, concurrency => 8, requests => 400, timeout => '5s') } qw(/u /z /status /api/upstreams);
    my $lost = failed();
    cmp_ok $lost, '>', 0, "one in $every allocations fails: $lost did; /u: " . outcome($reports[0]);
    is scalar(grep { $_->{errors}{timeout} } @reports), 0, "one in $every: no request hangs";
    well("one in $every");
}

# 3. Clocks. The wall clock may jump by any amount; the other one never goes back in Linux, and if it did nothing may break.
for my $step ([wall => 3600_000], [wall => -3600_000], [wall => 10 * 365 * 86400_000], [monotonic => 90_000], [monotonic => 700_000]) {
    my ($clock, $ms) = @$step;
    my $report = $t->load(path => '/u', concurrency => 4, duration => '2s', timeout => '10s', meanwhile => sub {
        my ($running) = @_;
        wait_for { !$running->() } 0.7;
        faults($clock => $ms);
        wait_for { !$running->() } 10;
    });
    is $report->{error_count}, 0, "$clock clock, $ms ms: none of $report->{count} requests failed" or diag outcome($report);
    my ($slowest) = sort { $b <=> $a } map { $_->{labor}{latency} // 0 } map { @{ $_->{peers} } } values %{ $t->status->{upstreams} };
    cmp_ok $slowest // 0, '<', 60_000, "$clock clock, $ms ms: no latency is as long as the jump";
    # Back again, which is the step in the other direction.
    well("$clock clock, $ms ms") if $clock eq 'wall';
    if ($clock eq 'monotonic') {
        # nginx's own timers would wait for the time to come again, so workers start anew with the clock that they will have.
        $t->stop;
        faults();
        $t->run;
        well("$clock clock, $ms ms, after a restart");
    }
}

# 4. No connections left, no files left.
for my $lack (
    ['worker_connections', '', 'worker_connections 40;', qr/worker_connections are not enough/],
    ['open files', 'worker_rlimit_nofile 40;', 'worker_connections 4096;', qr/Too many open files/],
) {
    my ($what, $main, $events, $words) = @$lack;
    $t->stop;
    $t->conf($conf, main => $main, events => $events)->run;
    $t->allow($words);
    my $report = $t->load(path => '/h', concurrency => 200, requests => 2000, timeout => '10s');
    like $t->error_log, $words, "$what: there are none left; /h: " . outcome($report);
    cmp_ok $report->{statuses}{200} // 0, '>', 0, "$what: some requests are served";
    well($what);
    # The descriptor that a status page or the state file would need is no reason to die either.
    is $t->get('/status')->status, 200, "$what: the status answers";
}
$t->done;
