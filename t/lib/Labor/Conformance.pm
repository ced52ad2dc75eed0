package Labor::Conformance;

# Runs the public nginx-tests suite twice, as it is and with `labor;` injected, and compares. Used by scripts/conformance.

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(basename);
use Labor::Util qw(slurp);
use TAP::Harness;

our @EXPORT = 'compare';

# Files that assert exact shares or turns of round robin, and which. labor chooses by latency and begins turns elsewhere.
my %BY_DESIGN = (
    'upstream.t' => 'how round robin divides 30 requests around a failing server',
    'upstream_sticky.t' => 'shares by weight, one check for each server seen (so their number varies), and the order of retries',
    'upstream_sticky_drain.t' => 'with which server the turns of new requests begin',
    'upstream_sticky_learn.t' => 'that requests without a session are spread over equal servers in turns',
    'upstream_sticky_learn_header.t' => 'with which server the first new session begins',
    'upstream_sticky_route.t' => 'with which server the turns of requests without a route begin',
);
# Files in which the number of checks depends on who was chosen.
my %COUNT_VARIES = ('upstream_sticky.t' => 1);

# compare(): DIR JOBS [FILE…] from the command line.
sub compare {
    my ($dir, $jobs, @files) = @ARGV;
    chdir $dir or die "$dir: $!\n";
    -e 'lib/Test/Nginx.pm' or die "$dir is no copy of nginx-tests: it has no lib/Test/Nginx.pm\n";
    # Upstreams of stream{} are not ours.
    @files = grep { !/^stream_/ && slurp($_) =~ /^\s*upstream\s+\S+\s*\{/m } glob '*.t' unless @files;
    my $library = abs_path($INC{'Labor/Util.pm'} =~ s{Labor/Util\.pm$}{}r);
    local $ENV{PERL5LIB} = join ':', $library, $ENV{PERL5LIB} // ();
    local $ENV{PERL5OPT} = '-MLabor::Inject';
    print scalar(@files), " files, without labor:\n";
    my $plain = _run($jobs, @files);
    print "with labor:\n";
    local $ENV{LABOR_INJECT} = 1;
    my $injected = _run($jobs, @files);
    exit(_report($plain, $injected));
}

# {file => {failed => {number => 1}, skipped => reason or undef, broken => text}}
sub _run {
    my ($jobs, @files) = @_;
    my $harness = TAP::Harness->new({ jobs => $jobs, lib => ['lib'], verbosity => -3, merge => 1 });
    my %clean;
    # The second argument is [path, description].
    $harness->callback(made_parser => sub { _watch($_[0], $clean{ $_[1][1] } = {}) });
    my $all = $harness->runtests(@files);
    my %result;
    for my $file ($all->descriptions) {
        my ($parser) = $all->parsers($file);
        $result{$file} = {
            failed => { map { $_ => 1 } $parser->failed },
            skipped => $parser->skip_all,
            broken => join('; ', $parser->parse_errors) || ($parser->exit && !$parser->failed ? 'exit ' . $parser->exit : ''),
            # Whether its checks that nginx logged no alert (a worker that crashed is one) were made, and all passed.
            clean => keys %{ $clean{$file} } && !grep({ !$_ } values %{ $clean{$file} }) ? 1 : 0,
        };
    }
    return \%result;
}

# Notes in %$clean how the checks went that the suite itself appends to each file.
sub _watch {
    my ($parser, $clean) = @_;
    $parser->callback(test => sub {
        my ($check) = @_;
        $clean->{$1} = $check->is_ok if $check->description =~ /^- (no alerts|no sanitizer errors)$/;
    });
}

sub _report {
    my ($plain, $injected) = @_;
    my %count = (same => 0, design => 0, worse => 0, skipped => 0);
    for my $file (sort keys %$plain) {
        my ($without, $with) = ($plain->{$file}, $injected->{$file});
        if ($without->{skipped}) {
            $count{skipped}++;
            print "SKIPPED  $file: $without->{skipped}\n";
            next;
        }
        my @new = grep { !$without->{failed}{$_} } sort { $a <=> $b } keys %{ $with->{failed} };
        my $broken = $with->{broken} && !$without->{broken} ? " ($with->{broken})" : '';
        if (!@new && !$broken) {
            $count{same}++;
            next;
        }
        my $count_only = $COUNT_VARIES{ basename($file) } && $with->{broken} =~ /^Bad plan\.[^;]*$/;
        # No reason excuses a crash.
        my $excused = $with->{clean} && (!$broken || $count_only);
        my $reason = $excused ? $BY_DESIGN{ basename($file) } : undef;
        $broken .= ' (alerts, or not looked for)' if !$with->{clean};
        $count{ $reason ? 'design' : 'worse' }++;
        printf "%-8s %s: fails with labor only: %s%s%s\n", $reason ? 'DESIGN' : 'WORSE', $file, "@new", $broken,
            $reason ? "\n         asserts $reason" : '';
    }
    print "\n$count{same} files alike, $count{design} differ by design, $count{worse} worse, $count{skipped} skipped\n";
    return $count{worse} ? 1 : 0;
}

1;
