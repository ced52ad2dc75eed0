# Random lines of every directive through nginx's own reading of a configuration: perl -It/lib t/fire/lines.pl COUNT MODULE
#
# The directives and their words are taken from the sources in src/conf, so that new ones are tried as soon as they are there.
# nginx (with AddressSanitizer) reads thousands a run, through t/fire/lines.c; those it accepts are then put into a real
# configuration, which must be accepted or refused in words. Never a signal, a report, or a refusal without a message.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp ();
use Labor::Nginx;
use Labor::Util qw(slurp spill);

my ($count, $lines_module) = @ARGV;
my $root = abs_path(dirname(__FILE__) . '/../..');
my $seed = $ENV{LABOR_SEED} // time;
srand $seed;
my $BATCH = 5000;
# As many accepted lines are put into one real configuration: its shared memory must stay small.
my $REAL = 100;

$ENV{LABOR_NGINX} = "$root/build/asan/nginx";
$ENV{LABOR_MODULE} = "$root/build/vendored/ngx_http_labor_module.so";
# Memory that a refused configuration leaves to the end of the process is no fault of it; each module has an ngx_module_names.
$ENV{ASAN_OPTIONS} = 'detect_leaks=0:detect_odr_violation=0:abort_on_error=1';
my $dir = File::Temp->newdir('labor-lines-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $nginx = Labor::Nginx->new(dir => "$dir", workers => 1);

# What the sources name: directives, and every word in quotes that is short enough to be one.
my @files = ("$root/src/conf.rs", glob "$root/src/conf/*.rs");
my $source = join '', map { slurp($_) } @files;
my @directives = $source =~ /name: ngx_string!\("(\w+)"\)/g;
my %words = map { $_ => 1 } grep { !/^labor|%V|\\/ } $source =~ /"([a-z0-9_%.=|-]{1,24})"/g;
my @words = sort keys %words;
die "no directives in the sources\n" if @directives < 5 || @words < 15;

sub pick { return $_[rand @_] }
sub bytes { return join '', map { chr pick(32 .. 126, 128 .. 255, 9) } 1 .. 1 + rand $_[0] }

sub value {
    my $kind = rand;
    return int(rand 1000) . pick('', 'ms', 's', 'm', 'h', 'd', '%', 'k', 'm', 'g') if $kind < 0.35;
    return pick(@words) if $kind < 0.5;
    return pick(qw(0 1 -1 00 1e9 18446744073709551615 18446744073709551616 99999999999999999999 0.0000001 inf nan 100% 101% 2147483648 1y 1ms1s), '') if $kind < 0.65;
    return join ',', map { int rand 700 } 1 .. 1 + rand 8 if $kind < 0.75;
    return 'x' x pick(1, 255, 256, 4096) if $kind < 0.78;
    return '$' . pick(qw(remote_addr labor_x {a), '') if $kind < 0.82;
    return bytes(12);
}

sub word {
    my $kind = rand;
    return pick(@words) if $kind < 0.3;
    return pick(@words) =~ s/=.*//r . '=' . value() if $kind < 0.8;
    my $text = value();
    return pick(qw(" ')) . $text . pick(qw(" '), '') if $kind < 0.9;
    return $text;
}

# One directive in one of the places where it may stand, or not.
sub line {
    my $directive = rand() < 0.97 ? pick(@directives) : bytes(8);
    my $text = join ' ', $directive, map { word() } 1 .. rand 5;
    substr($text, rand length $text, 1) = bytes(2) if rand() < 0.05;
    $text =~ s/[\n\0]/ /g;
    my $number = int rand 1e9;
    my $place = $directive =~ /^labor$|^labor_(?:breaker|check|hash)/ ? 0 : $directive =~ /zone|state/ ? 2 : 1;
    $place = int rand 3 if rand() < 0.1;
    return (
        "upstream u$number { labor; $text; server 127.0.0.1:1; } }",
        "server { listen 127.0.0.1:1; location / { $text; } } }",
        "$text; }",
    )[$place] =~ s/^(upstream \S+ \{) labor; (?=labor )/$1 /r . "\n";
}

# nginx -t on a configuration: (how it ended, what it said). A report of the sanitizers goes to stderr.
sub check {
    my ($http, $main) = @_;
    my (undef, $said) = $nginx->check($nginx->configuration($http) =~ s/^daemon/$main\ndaemon/mr);
    return ($?, $said);
}

my %sum = map { $_ => 0 } qw(tried accepted silent real passed);
sub failed {
    my ($what, $said) = @_;
    print "lines: $what (LABOR_SEED=$seed)\n", substr($said, 0, 4000), "\n";
    exit 1;
}

while ($sum{tried} < $count) {
    my $batch = $count - $sum{tried} < $BATCH ? $count - $sum{tried} : $BATCH;
    spill("$dir/lines", join '', map { line() } 1 .. $batch);
    my ($ended, $said) = check("try_lines $dir/lines;", "load_module $lines_module;");
    failed("nginx ended with $ended", $said) if $ended != 256 || $said =~ /Sanitizer|runtime error|panicked/;
    my ($tried, $accepted, $silent) = $said =~ /lines: tried (\d+), accepted (\d+), silent (\d+)/;
    failed('not all lines were tried', $said) if ($tried // 0) != $batch;
    $sum{tried} += $tried;
    $sum{accepted} += $accepted;
    $sum{silent} += $silent;
    # Those of whole blocks that stand together: each upstream has its own name.
    my @real = grep { /^upstream/ } split /^/, slurp("$dir/lines.accepted");
    @real = map { s/ \}$//r } @real[0 .. ($#real < $REAL ? $#real : $REAL - 1)];
    ($ended, $said) = check(join('', @real), '');
    failed("nginx ended with $ended on what it had accepted", $said)
        if $ended != 0 && $ended != 256 || $said =~ /Sanitizer|runtime error|panicked/;
    failed('refused without a message', $said) if $ended && $said !~ /\[emerg\]/;
    $sum{real} += @real;
    $sum{passed} += @real unless $ended;
}
printf "%s lines        %10d lines of %d directives read by nginx, %d accepted, %d refused in silence; %d of them in real "
    . "configurations (%d passed nginx -t), no crash\n",
    $sum{silent} ? 'FAILED ' : 'ok     ', @sum{qw(tried)}, scalar @directives, @sum{qw(accepted silent real passed)};
exit($sum{silent} || !$sum{accepted} ? 1 : 0);
