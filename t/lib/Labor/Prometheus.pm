package Labor::Prometheus;

# A real Prometheus and its promtool, where scripts/lib/prometheus.sh put them or LABOR_PROMETHEUS says (a directory).

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Labor::HTTP;
use Labor::Util qw(wait_for free_port slurp spawn finish_child);
use JSON::PP ();

my $ROOT = abs_path(dirname(__FILE__) . '/../../..');

sub _where { return $ENV{LABOR_PROMETHEUS} || "$ROOT/build/prometheus/usr/bin" }

# missing(): what is not there, '' when all is.
sub missing {
    my @missing = grep { !-x _where() . "/$_" } qw(prometheus promtool);
    return @missing ? "no @missing in " . _where() . ' (scripts/test fetches them)' : '';
}

# check(DIR, TEXT): what `promtool check metrics` says of the text; '' when it has nothing to say.
sub check {
    my ($dir, $text) = @_;
    my $file = "$dir/metrics.txt";
    open my $out, '>', $file or die "$file: $!\n";
    print {$out} $text;
    close $out;
    my $said = qx('${\ _where()}/promtool' check metrics <'$file' 2>&1);
    return $? ? "status $?: $said" : $said;
}

# new(DIR, TARGETS, EVERY): a Prometheus that scrapes HOST:PORT/PATH targets.
sub new {
    my ($class, $dir, $targets, $every) = @_;
    my $self = bless { port => free_port(), log => "$dir/prometheus.log" }, $class;
    my $jobs = join '', map {
        my ($address, $path) = $targets->[$_] =~ m{^([^/]+)(/.*)$} or die "bad target $targets->[$_]\n";
        "  - { job_name: job$_, metrics_path: '$path', static_configs: [ { targets: ['$address'] } ] }\n"
    } 0 .. $#$targets;
    open my $out, '>', "$dir/prometheus.yml" or die "$dir/prometheus.yml: $!\n";
    print {$out} "global: { scrape_interval: $every, scrape_timeout: $every }\nscrape_configs:\n$jobs";
    close $out;
    $self->{pid} = spawn("$dir/prometheus.out", $self->{log}, _where() . '/prometheus', "--config.file=$dir/prometheus.yml",
        "--storage.tsdb.path=$dir/prometheus", "--web.listen-address=127.0.0.1:$self->{port}", '--log.level=warn');
    wait_for { $self->_get('/-/ready') } 60 or die "Prometheus does not start:\n" . slurp($self->{log});
    return $self;
}

sub _get {
    my ($self, $path) = @_;
    my $connection = Labor::HTTP->connect($self->{port}) or return;
    my $answer = $connection->request($path, close => 1);
    return $answer && $answer->status == 200 ? $answer->body : undef;
}

# query(EXPRESSION): what it comes to now, as [{ metric, value }]; undef when it cannot be asked.
sub query {
    my ($self, $expression) = @_;
    my $encoded = $expression =~ s/([^A-Za-z0-9])/sprintf '%%%02X', ord $1/ger;
    my $body = $self->_get("/api/v1/query?query=$encoded") // return;
    my $answer = JSON::PP::decode_json($body);
    return $answer->{status} eq 'success' ? [map { { metric => $_->{metric}, value => $_->{value}[1] } } @{ $answer->{data}{result} }] : undef;
}

# targets(): every target with health and lastError.
sub targets {
    my ($self) = @_;
    my $body = $self->_get('/api/v1/targets') // return;
    return @{ JSON::PP::decode_json($body)->{data}{activeTargets} };
}

sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    return finish_child($pid, 'TERM', 20);
}

sub DESTROY { $_[0]->stop }

1;
