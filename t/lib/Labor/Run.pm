package Labor::Run;

# Runs test files as `prove` does and says in one line a file what was skipped and why; used by scripts/test.
# A file with a line "# waits" needs time and little of the machine: these run together after the others. One with a line
# "# alone" measures: it runs last, with nothing beside it, and not at all with LABOR_MEASURE=0.
#
#     perl -It/lib -MLabor::Run -e run JOBS SUMMARY_FILE FILE…
#
# The summary file gets one line: "passed failed skipped", counted in single tests.

use strict;
use warnings;

use Exporter 'import';
use Labor::Util qw(slurp spill);
use TAP::Harness;

our @EXPORT = 'run';

# Files that wait: together they leave two cores half idle.
my $WAITING = 6;

sub run {
    my ($jobs, $summary, @files) = @ARGV;
    my %group;
    push @{ $group{ slurp($_) =~ /^# (alone|waits)$/m ? $1 : 'beside' } }, $_ for @files;
    my %sum = (passed => 0, failed => 0, skipped => 0);
    my @skips;
    _run_files($jobs, $group{beside}, \%sum, \@skips);
    _run_files($WAITING, $group{waits}, \%sum, \@skips);
    if ($ENV{LABOR_MEASURE} // 1) { _run_files(1, $group{alone}, \%sum, \@skips) }
    else { print "not measured on this version: $_\n" for @{ $group{alone} || [] } }
    print map { "SKIPPED $_\n" } @skips;
    spill($summary, "$sum{passed} $sum{failed} $sum{skipped}\n");
    exit($sum{failed} ? 1 : 0);
}

sub _run_files {
    my ($jobs, $files, $sum, $skips) = @_;
    return unless $files;
    my $harness = TAP::Harness->new({ jobs => $jobs, lib => ['t/lib'], timer => 1, failures => 1 });
    $harness->callback(made_parser => sub {
        my ($parser, $job) = @_;
        my $name = ref $job ? $job->[0] : $job;
        $parser->callback(test => sub {
            my ($test) = @_;
            push @$skips, "$name: " . $test->explanation if $test->has_skip;
        });
        $parser->callback(plan => sub {
            my ($plan) = @_;
            return unless $plan->has_skip || $plan->tests_planned == 0;
            push @$skips, "$name (whole file): " . $plan->explanation;
            $sum->{skipped}++;
        });
    });
    my $result = $harness->runtests(@$files);
    $sum->{skipped} += $result->skipped;
    $sum->{failed} += $result->failed;
    # A file that died, or ran other tests than planned, has failed even when each of its tests passed.
    $sum->{failed} += grep { $_->parse_errors || $_->exit } grep { !$_->failed } $result->parsers;
    $sum->{passed} += $result->passed - $result->skipped;
}

1;
