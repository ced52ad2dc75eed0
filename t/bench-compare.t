# `labor-bench compare`: what it prints is what happened. Servers so far apart that no machine confuses them; a change in
# mid-run that turns every answer into an error.
# fails with: events not sent, figures of all requests taken for those after learning, a method run with another's configuration.
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

# compare(SCENARIO, OPTION …): (true when it ended well, what it printed, what it complained of).
my $runs = 0;
sub compare {
    my ($scenario, @options) = @_;
    my $name = "$dir/run" . ++$runs;
    spill("$name.toml", $scenario);
    my @command = (Labor::Model::binary(), 'compare', "$name.toml", '--dir', $dir, @PROGRAMS, @options);
    my $pid = spawn("$name.out", "$name.err", @command);
    my $status;
    wait_for { waitpid($pid, WNOHANG) and $status = $?, 1 } 60 or finish_child($pid, 'TERM', 5);
    return (defined $status && $status == 0, slurp("$name.out"), slurp("$name.err"));
}

my $SCENARIO = <<'EOS';
about = "Two servers far apart"
rate = 100
requests = 100
learning = 50

[[server]]
name = "quick"
spec = "service=const:1ms"

[[server]]
name = "slow"
spec = "service=const:100ms"
EOS

my ($good, $out, $said) = compare($SCENARIO, '--methods', 'labor,round_robin,first_alone', '--seeds', 2, '--json', "$dir/json");
ok $good, 'runs' or diag $said;
my ($result) = @{ JSON::PP::decode_json(slurp("$dir/json") || '[]') };
my $methods = $result->{methods};
is_deeply [ map { scalar @{ $methods->{$_} || [] } } qw(labor round_robin first_alone) ], [ 2, 2, 2 ], 'every method has two runs';
for my $run (@{ $methods->{round_robin} }) {
    is_deeply [ map { $run->{$_}{count} } qw(all learned) ], [ 100, 50 ], 'all, and those after learning';
    is $run->{all}{errors}, 0, 'without errors';
    ok abs($run->{all}{shares}{slow} - 0.5) <= 0.02, 'round robin: half each' or diag explain $run;
    cmp_ok $run->{all}{mean_ms}, '>', 50, 'and every other request takes 100 ms';
    cmp_ok $run->{all}{p50_ms}, '<=', $run->{all}{p99_ms}, 'quantiles are in order';
}
is_deeply $_->{all}{shares}, { quick => 1 }, 'first_alone: only the first' for @{ $methods->{first_alone} };
cmp_ok $_->{learned}{shares}{quick}, '>=', 0.9, 'labor: nearly all to the quick one' for @{ $methods->{labor} };
like $out, qr/^mean of labor \/ round_robin \(best other\): 0\.\d/m, 'the ratio goes by the best other method';

my $event = qq{\n[[event]]\nat = "500ms"\nserver = "quick"\nset = "fail=1:500,fast_fail"\n};
my $together = $SCENARIO =~ s/^rate/together = true\nrate/mr;
($good, $out, $said) = compare($together . $event, '--methods', 'first_alone,least_conn', '--seeds', 1, '--json', "$dir/json");
ok $good, 'methods at the same time' or diag $said;
($result) = @{ JSON::PP::decode_json(slurp("$dir/json") || '[]') };
my ($run) = @{ $result->{methods}{first_alone} };
cmp_ok $run->{all}{errors}, '>', 10, 'the change came';
cmp_ok $run->{all}{errors}, '<', 90, 'and not at once' or diag explain $run;

($good, $out, $said) = compare($SCENARIO, '--methods', 'fastest');
ok !$good, 'an unknown method is refused';
like $said, qr/unknown method "fastest"; known: labor,/, 'with those it knows';
($good, $out, $said) = compare($SCENARIO =~ s/const:1ms/const:1/r);
ok !$good, 'a wrong SPEC ends the run';
my $sockets = () = glob "$dir/*/listen";
is $sockets, 0, 'no balancer is left';

done_testing;
