# T08: reload after reload, from any shape of configuration to any other, while requests come in: no worker dies, no request
# gets an error, no memory is lost.
# fails with: a variant whose upstream refuses connections (502s are seen).
use strict;
use warnings;
use Labor::Test;

# Reloads are what this test does itself.
my $t = Labor::Test->new(reload => 0);
my @names = map { "S$_" } 1 .. 6;
$t->model(map { $_ => 'service=const:5ms' } @names);
my %server = map { $_ => "server %%ADDR_$_%%;" } @names;
my $many = join "\n", map { "upstream m$_ { labor; @server{qw(S1 S2)} $server{\"S$_\"} }" } 1 .. 6;

sub conf {
    my ($upstreams, $location) = @_;
    return "$upstreams\nserver { listen %%LISTEN%%; location / { $location } }\n";
}
my $pass = 'proxy_pass http://u;';
my @variants = (
    conf('', 'return 200;'),
    conf("upstream u { labor; $server{S1} }", $pass),
    conf("upstream u { labor; @server{qw(S1 S2 S3)} }", $pass),
    conf("upstream u { labor; @server{qw(S3 S1 S2)} }", $pass),
    conf("upstream v { labor; @server{qw(S1 S2 S3)} }", 'proxy_pass http://v;'),
    conf("upstream u { zone u 128k; labor; @server{qw(S1 S2 S3)} }", $pass),
    conf("labor_zone 4m; upstream u { labor; @server{@names} }", $pass),
    conf("labor_zone 1m; upstream u { zone u 256k; labor header half_life=10s; @server{@names} }", $pass),
    conf("$many\nupstream u { labor policy=weighted; @server{qw(S4 S5)} $server{S6} }", $pass),
    conf("upstream u { labor policy=round_robin; @server{qw(S1 S2)} } upstream w { labor policy=decay; $server{S1} }", $pass),
    conf("upstream u { labor policy=least_conn; $server{S2} server %%ADDR_S3%% backup; server %%ADDR_S4%% down; }", $pass),
    conf("upstream u { least_conn; @server{qw(S1 S2)} }", $pass),
);

$t->conf($variants[1])->run;
my ($reloads, $requests, $errors, %statuses) = (0, 0, 0);
# Every other variant after each: the steps between neighbours grow from round to round.
my ($at, $step) = (1, 1);
while ($reloads < 100) {
    my $report = $t->load(
        rate => 100,
        duration => '4s',
        meanwhile => sub {
            my ($running) = @_;
            while ($reloads < 100 && $running->()) {
                $at = ($at + $step) % @variants;
                $step = $step % (@variants - 1) + 1 unless ++$reloads % @variants;
                $t->conf($variants[$at])->reload;
            }
        },
    );
    $requests += $report->{count};
    $errors += $report->{error_count};
    $statuses{$_} += $report->{statuses}{$_} for keys %{ $report->{statuses} };
}
is $reloads, 100, 'a hundred reloads';
cmp_ok $requests, '>', 300, "under load: $requests requests";
is $errors, 0, 'no error' or diag explain \%statuses;
is_deeply [keys %statuses], [200], 'nothing but 200' or diag explain \%statuses;

# All is well after that: the upstream learns, and no old process is left.
$t->conf($variants[2])->reload;
eventually { $t->nginx->pid && workers_of($t->nginx->pid) == scalar(my @now = $t->workers) } 'the old workers are gone';
is $t->load(rate => 100, requests => 50)->{statuses}{200}, 50, 'still serves';
my $status = $t->status;
cmp_ok $status->{zone}{workers_used}, '<=', 2 * (my @now = $t->workers), 'slots of ended workers are free again'
    or diag explain $status->{zone};

# All workers, also those that are shutting down.
sub workers_of {
    my ($master) = @_;
    return scalar grep { my $text = Labor::Util::slurp($_); $text =~ /\A\d+ \(.*\) \S $master /s } glob '/proc/[0-9]*/stat';
}

$t->done;
