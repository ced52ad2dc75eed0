package Labor::Model;

# The model servers and the load generator of crates/bench, as objects: start, change, count, stop, measure.
# What a server can do and what a load reports is described in docs/model-servers.md.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use JSON::PP ();
use Labor::HTTP;
use Labor::Util qw(wait_for slurp spawn finish_child);
use POSIX qw(:sys_wait_h);

my $ROOT = abs_path(dirname(__FILE__) . '/../../..');
my $count = 0;

sub binary {
    my $binary = $ENV{LABOR_BENCH} || "$ROOT/build/labor-bench";
    die "$binary is missing: scripts/test builds it, or set LABOR_BENCH\n" unless -x $binary;
    return $binary;
}

# new(DIR, NAME => SPEC, …): one process with all these servers, listening when this returns.
sub new {
    my ($class, $dir, @servers) = @_;
    my $self = bless { out => "$dir/model" . ++$count, names => [] }, $class;
    my @arguments;
    while (my ($name, $spec) = splice @servers, 0, 2) {
        push @{ $self->{names} }, $name;
        push @arguments, '--server', "$name=$spec";
    }
    # For what runs longer than their ten minutes.
    push @arguments, '--lifetime', $ENV{LABOR_LIFETIME} if $ENV{LABOR_LIFETIME};
    # The servers end when this pipe closes: also when the test is killed.
    pipe my $in, $self->{alive} or die "pipe: $!";
    $self->{pid} = spawn("$self->{out}.json", "$self->{out}.err", binary(), 'model', @arguments, $in);
    my $line = wait_for { slurp("$self->{out}.json") =~ /\A(.*)\n/ && $1 || waitpid($self->{pid}, WNOHANG) && '-' };
    die "model servers do not start: " . slurp("$self->{out}.err") . "\n" if !$line || $line eq '-';
    $self->{ready} = JSON::PP::decode_json($line);
    return $self;
}

sub names { return @{ $_[0]{names} } }

sub address { my ($self, $name) = @_; return $self->{ready}{servers}{$name} }

sub _control {
    my ($self, $method, $path, $body) = @_;
    my $connection = Labor::HTTP->connect($self->{ready}{control}) or die "model servers are gone\n";
    my $answer = $connection->request($path, method => $method, body => $body, close => 1);
    die "model servers refuse $path: " . ($answer ? $answer->body : 'no answer') . "\n"
        unless $answer && $answer->status =~ /^2/;
    return $answer->body;
}

# set(NAME, WORDS): changes the behaviour of a server for later requests.
sub set { my ($self, $name, $words) = @_; $self->_control(POST => "/set?server=$name", $words); return }

# close(NAME): nobody listens any more and its connections are gone; open(NAME): it listens again, on the same address.
sub close { my ($self, $name) = @_; $self->_control(POST => "/close?server=$name", ''); return }
sub open { my ($self, $name) = @_; $self->_control(POST => "/open?server=$name", ''); return }

# block(NAME): connections to it neither succeed nor fail; open(NAME) ends that too.
sub block { my ($self, $name) = @_; $self->_control(POST => "/block?server=$name", ''); return }

# stats(NAME): its counters since the start or reset().
sub stats {
    my ($self, $name) = @_;
    return JSON::PP::decode_json($self->_control(GET => '/stats'))->{$name};
}

sub reset { my ($self, $name) = @_; $self->_control(POST => "/reset?server=$name", ''); return }

# True when the process ended by itself.
sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return 1;
    return finish_child($pid, 'TERM', 5);
}

# Options of `labor-bench load` that take no value.
my %SWITCH = map { $_ => 1 } qw(uniform new_connections);

# load(DIR, {OPTION => VALUE}, MEANWHILE): runs `labor-bench load --OPTION VALUE …` and returns its report; a list as value
# repeats the option. MEANWHILE is called once with a test for "still running".
sub load {
    my ($dir, $options, $meanwhile) = @_;
    my $out = "$dir/load" . ++$count;
    my @arguments;
    for my $option (sort keys %$options) {
        my ($name, $value) = ('--' . $option =~ tr/_/-/r, $options->{$option});
        push @arguments, $SWITCH{$option} ? $name : map { ($name, $_) } ref $value ? @$value : $value;
    }
    my $pid = spawn("$out.json", "$out.err", binary(), 'load', '--json', @arguments);
    my ($ended, $status);
    my $running = sub {
        return 0 if $ended;
        $ended = waitpid($pid, WNOHANG) or return 1;
        $status = $?;
        return 0;
    };
    unless (eval { $meanwhile->($running); 1 }) {
        my $reason = $@;
        finish_child($pid, 'TERM', 5) if $running->();
        die $reason;
    }
    unless (wait_for { !$running->() } 600) {
        finish_child($pid, 'TERM', 5);
        die "load did not end in 10 minutes\n";
    }
    my $report = eval { JSON::PP::decode_json(slurp("$out.json")) };
    die "load failed: " . slurp("$out.err") . slurp("$out.json") . "\n" if $status || !$report;
    return $report;
}

1;
