# `labor-bench compare`: what it prints is what happened. Servers so far apart that no machine confuses them; a change in
# mid-run that turns every answer into an error.
# fails with: events not sent, figures of all requests taken for those after learning, a method run with another's
# configuration, results that cannot be read again.
use strict;
use warnings;
use File::Temp ();
use JSON::PP ();
use Labor::Model;
use Labor::Nginx;
use Labor::Util qw(slurp spill spawn finish_child wait_for);
use POSIX qw(:sys_wait_h);
use Test::More;

plan skip_all => 'compares the module with others' if Labor::Nginx::module() eq 'none';
my $dir = File::Temp->newdir('labor-test-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my @PROGRAMS = ('--nginx', Labor::Nginx::binary(), '--module', Labor::Nginx::module());

# compare(PLAN, SIMULATED, OPTION …): (true when it ended well, its results, what it printed, what it complained of).
my $runs = 0;
mkdir "$dir/$_" for qw(plans simulated results);
sub compare {
    my ($plan, $simulated, @options) = @_;
    my $name = 'run' . ++$runs;
    spill("$dir/plans/$name.toml", $plan);
    spill("$dir/simulated/$name.toml", $simulated);
    my @command = (Labor::Model::binary(), 'compare', "$dir/plans/$name.toml", '--simulated', "$dir/simulated", '--dir', $dir);
    my $pid = spawn("$dir/$name.out", "$dir/$name.err", @command, '--json', "$dir/results", @PROGRAMS, @options);
    my $status;
    wait_for { waitpid($pid, WNOHANG) and $status = $?, 1 } 60 or finish_child($pid, 'TERM', 5);
    my $results = "$dir/results/$name.json";
    my $sheet = -e $results ? JSON::PP::decode_json(slurp($results)) : { rows => [] };
    my %rows = map { $_->{method} => $_ } @{ $sheet->{rows} };
    return (defined $status && $status == 0, \%rows, slurp("$dir/$name.out"), slurp("$dir/$name.err"));
}

my $PLAN = "stretch = 2\nclock = 0.5\nseconds = 1\nwarmup = 0.5\n";
my $SIMULATED = <<'EOS';
about = "Two servers far apart"
rate = 200
duration = 2
service = { kind = "const" }
[[server]]
service_ms = 50
concurrency = 9
[[server]]
service_ms = 0.5
concurrency = 9
EOS

my ($good, $rows, $out, $said) = compare($PLAN, $SIMULATED, '--methods', 'labor,round_robin,first_alone', '--seeds', 2);
ok $good, 'runs' or diag $said;
is_deeply [ map { scalar @{ $rows->{$_}{runs} || [] } } qw(labor round_robin first_alone) ], [ 2, 2, 2 ], 'every method has two runs';
my @runs = map { $_->{runs} } @{$rows}{qw(labor round_robin first_alone)};
is_deeply [ map { [ $_->[0]{all}{count}, $_->[1]{all}{count} ] } @runs ], [ ([ map { $_->{all}{count} } @{ $runs[0] } ]) x 3 ],
    'each seed has the same arrivals for all';
for my $run (@{ $rows->{round_robin}{runs} }) {
    # Poisson: 100 requests in a second, 50 in the half of it; 5 standard deviations.
    cmp_ok abs($run->{all}{count} - 100), '<=', 50, 'all';
    cmp_ok abs($run->{learned}{count} - 50), '<=', 36, 'and those after learning';
    is $run->{all}{errors}, 0, 'without errors';
    cmp_ok abs($run->{all}{shares}[0] - 0.5), '<=', 0.02, 'round robin: half each';
    cmp_ok $run->{all}{mean}, '>', 45, 'and every other request takes 100 ms';
    cmp_ok $run->{all}{p50}, '<=', $run->{all}{p99}, 'quantiles are in order';
}
is_deeply $_->{all}{shares}, [ 1, 0 ], 'first_alone: only the first' for @{ $rows->{first_alone}{runs} };
cmp_ok $_->{learned}{shares}[1], '>=', 0.75, 'labor: most to the quick one' for @{ $rows->{labor}{runs} };
like $out, qr/^labor over the best other, mean: 0\.\d+ \[.*\] of round_robin\.$/m, 'the ratio goes by the best other method';

my $event = qq{[[server.event]]\nat = 1\neffect = "fail"\nshare = 1\n};
($good, $rows, $out, $said) = compare($PLAN, $SIMULATED =~ s/(?=\[\[server\]\]\nservice_ms = 0)/$event/r, '--methods', 'first_alone', '--seeds', 1);
ok $good, 'a server that fails' or diag $said;
my $run = $rows->{first_alone}{runs}[0];
cmp_ok $run->{all}{errors}, '>', 10, 'the change came';
cmp_ok $run->{all}{errors}, '<', 0.9 * $run->{all}{count}, 'and not at once' or diag explain $run;

system(Labor::Model::binary(), 'document', "$dir/results", '--out', "$dir/document.md");
is $?, 0, 'results become a document';
like slurp("$dir/document.md"), qr/^\| round_robin \| \d.*\(\d.*–\d/m, 'with tables';
like slurp("$dir/results/run2-time.svg"), qr/<svg .*100ms 100 % errors/s, 'and pictures with what happened';

($good, $rows, $out, $said) = compare($PLAN, $SIMULATED, '--methods', 'fastest');
ok !$good, 'an unknown method is refused';
like $said, qr/unknown method "fastest"; known: labor,/, 'with those it knows';
($good, $rows, $out, $said) = compare($PLAN, $SIMULATED =~ s/^rate/ratio/mr);
ok !$good, 'an unknown word too';
like $said, qr/run4\.toml.*ratio/s, 'with file and word';
($good, $rows, $out, $said) = compare($PLAN, $SIMULATED, '--haproxy', '/does/not/exist', '--methods', 'haproxy_random');
ok !$good, 'a named method that does not start ends the run';
like $said, qr/haproxy_random/, 'and is named';
my $sockets = () = glob "$dir/*/listen";
is $sockets, 0, 'no balancer is left';

done_testing;
