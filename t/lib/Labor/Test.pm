package Labor::Test;

# The harness of t/*.t: one nginx with the module, model servers behind it, a client before it, and checks at the end that
# nothing went wrong unseen. docs/testing.md shows how a test is written.
#
#     my $t = Labor::Test->new;
#     $t->model(A => 'service=const:5ms', B => 'service=const:50ms');
#     $t->conf(<<'EOF')->run;
#         upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
#         server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
#     EOF
#     is $t->get('/')->status, 200, 'served';
#     $t->done;

use strict;
use warnings;

use Exporter 'import';
use File::Temp ();
use JSON::PP ();
use Labor::Backends;
use Labor::HTTP;
use Labor::Model;
use Labor::Nginx;
use Labor::Util qw(wait_for free_port hold_port slurp last_lines);
use Test::More;

our @ISA = 'Labor::Backends';
our @EXPORT = (@Test::More::EXPORT, 'wait_for', 'eventually');

# An interrupted test must still end its processes (in END and DESTROY).
$SIG{$_} = sub { exit 130 } for qw(INT TERM HUP);
# Every wait has a deadline of its own; this one is for what nobody thought of.
$SIG{ALRM} = sub { diag 'the test takes too long'; exit 124 };
alarm($ENV{LABOR_TIMEOUT} || 400);
$| = 1;

my $current;

# Options: workers (default LABOR_WORKERS or 2; a test that needs an exact number says so), reload => 0 for a test that the
# reloads of LABOR_RELOAD=1 would make meaningless.
sub new {
    my ($class, %with) = @_;
    my $self = bless {
        base => File::Temp->newdir('labor-test-XXXXXX', TMPDIR => 1, CLEANUP => !$ENV{LABOR_KEEP}),
        names => {},
        models => undef,
        held => [],
        reload => $ENV{LABOR_RELOAD} && ($with{reload} // 1),
        owner => $$,
    }, $class;
    $self->{nginx} = Labor::Nginx->new(dir => "$self->{base}", workers => $with{workers} // $ENV{LABOR_WORKERS} // 2);
    diag "kept: $self->{base}" if $ENV{LABOR_KEEP};
    return $current = $self;
}

sub dir { return "$_[0]{base}" }
sub nginx { return $_[0]{nginx} }
sub nginx_version { return Labor::Nginx::version() }
sub has { return Labor::Nginx::has($_[1]) }

# Ends the whole file, visibly, where this nginx lacks a feature.
sub needs {
    my ($self, @features) = @_;
    my @missing = grep { !$self->has($_) } @features or return $self;
    plan skip_all => "nginx " . $self->nginx_version . " lacks: @missing";
}

# eventually { CONDITION } NAME, [SECONDS]: a check that passes as soon as the condition holds.
sub eventually (&$;$) {
    my ($condition, $name, $seconds) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok scalar(&wait_for($condition, $seconds)), $name;
}

# ---- load

# load(OPTION => VALUE, …): open-loop load against this nginx, the result as data; see Labor::Model. With LABOR_RELOAD
# nginx is reloaded meanwhile; `meanwhile => sub { my ($running) = @_; … }` is done instead of that.
sub load {
    my ($self, %with) = @_;
    $with{url} //= $self->url(delete $with{path} // '/');
    my $meanwhile = delete $with{meanwhile} // sub { $self->_reload_meanwhile(@_) };
    return Labor::Model::load($self->dir, \%with, $meanwhile);
}

# requests(OPTION => VALUE, …): the same load, but one hash a request in order of due time: due and latency (seconds),
# server ('-' when unknown), status (or the kind of error).
sub requests {
    my ($self, %with) = @_;
    my $log = $self->dir . '/requests.log';
    $self->load(%with, log => $log);
    my @requests;
    for (split /\n/, slurp($log)) {
        my ($due, $latency, $server, $status) = split /\t/;
        push @requests, { due => $due / 1e6, latency => $latency / 1e6, server => $server, status => $status };
    }
    return @requests;
}

# A reload every half second, ten at most: so that every load sees one and a long load is not all reloads.
sub _reload_meanwhile {
    my ($self, $running) = @_;
    return unless $self->{reload};
    for my $round (1 .. 10) {
        wait_for { !$running->() } 0.5 and return;
        $self->{nginx}->reload;
    }
}

# ---- configuration

# %%NAME%%: LISTEN (127.0.0.1:port), PORT, DIR, DEAD (an address that refuses connections), ADDR_x and PORT_x of the model
# server x or, when there is none, of a free port; ADDR6_x with the same port on [::1].
sub expand {
    my ($self, $text) = @_;
    $text =~ s/%%(\w+)%%/$self->_value($1)/ge;
    return $text unless Labor::Nginx::module() eq 'none';
    # Without the module: nginx's own round robin, variables always empty.
    return $text =~ s/\blabor_status\b[^;]*;/return 200 '{}';/gr =~ s/(?<![\w\/.-])labor(?:_zone)?(?= |;)[^;{}]*;//gr
        =~ s/\$labor_\w+/-/gr;
}

sub _value {
    my ($self, $name) = @_;
    my $names = $self->{names};
    return $self->dir if $name eq 'DIR';
    return '127.0.0.1:' . $self->port if $name eq 'LISTEN';
    return $self->port if $name eq 'PORT';
    return $names->{$name} //= $self->_dead if $name =~ /^DEAD\w*$/;
    return $names->{$name} if defined $names->{$name};
    return '127.0.0.1:' . $self->_value("PORT_$1") if $name =~ /^ADDR_(\w+)$/;
    return '[::1]:' . $self->_value("PORT_$1") if $name =~ /^ADDR6_(\w+)$/;
    return $names->{$name} = free_port() if $name =~ /^PORT_\w+$/;
    die "unknown %%$name%%";
}

sub _dead {
    my ($self) = @_;
    push @{ $self->{held} }, my $port = hold_port();
    return '127.0.0.1:' . $port->sockport;
}

sub port { my ($self, $name) = @_; return $self->{names}{ defined $name ? "PORT_$name" : 'PORT' } //= free_port() }
sub url { my ($self, $path) = @_; return 'http://127.0.0.1:' . $self->port . ($path // '/') }

# conf(HTTP_BLOCK, main => TEXT, events => TEXT): what stands in http{}; a server with labor_status is added.
sub conf {
    my ($self, $http, %with) = @_;
    $self->{conf} = [$http, %with];
    return $self;
}

sub _configuration {
    my ($self, $http, %with) = @_;
    $http .= "\nserver { listen 127.0.0.1:%%PORT__STATUS%%; location / { labor_status; } }\n" if $with{status} // 1;
    return $self->expand($self->{nginx}->configuration($http, %with));
}

# Writes the configuration; for a change before reload().
sub write_conf {
    my ($self) = @_;
    $self->{nginx}->write_conf($self->_configuration(@{ $self->{conf} }));
    return $self;
}

# config_test(HTTP_BLOCK): (true when `nginx -t` accepts it, all it said).
sub config_test {
    my ($self, $http, %with) = @_;
    return $self->{nginx}->check($self->_configuration($http, %with));
}

# config_error(HTTP_BLOCK): the lines with which `nginx -t` refuses it; undef when it does not.
sub config_error {
    my ($self, $http, %with) = @_;
    my ($good, $said) = $self->config_test($http, %with);
    return $good ? undef : $said;
}

# ---- nginx

# Starts nginx. A port that somebody took in between is replaced, a few times.
sub run {
    my ($self) = @_;
    my $said;
    for my $try (1 .. 5) {
        $self->write_conf;
        $said = $self->{nginx}->start or last;
        last unless $said =~ /Address already in use/;
        my $model = { %{ $self->{model_of} || {} }, %{ $self->{raw} || {} } };
        delete $self->{names}{$_} for grep { /^PORT/ && !(/^PORT_(.*)/ && $model->{$1}) } keys %{ $self->{names} };
        truncate $self->dir . '/error.log', 0;
    }
    die "nginx does not start:\n$said" if $said;
    $self->{nginx}->reload if $self->{reload};
    return $self;
}

# reload(): the configuration is written anew and taken over; returns the pids of the old workers.
sub reload { my ($self) = @_; return $self->write_conf->{nginx}->reload }
sub stop { my ($self, $signal) = @_; return $self->{nginx}->stop($signal) }
sub workers { return $_[0]{nginx}->workers }
sub kill_worker { my ($self, @with) = @_; return $self->{nginx}->kill_worker(@with) }
sub wait_gone { my ($self, @with) = @_; return $self->{nginx}->wait_gone(@with) }
sub error_log { return $_[0]{nginx}->log }
sub allow { my ($self, $pattern) = @_; $self->{nginx}->allow($pattern); return $self }

# lines(FILE, COUNT): the lines of a log in the test's directory, as soon as there are that many.
sub lines {
    my ($self, $file, $count) = @_;
    my @lines;
    wait_for { @lines = split /\n/, slurp($self->dir . "/$file"); @lines >= ($count // 1) };
    return @lines;
}

# The decoded answer of labor_status, to `?QUERY` if one is given.
sub status {
    my ($self, $query) = @_;
    my $path = defined $query ? "/?$query" : '/';
    my $answer = $self->connection($self->port('_STATUS'))->request($path, close => 1);
    return $answer && $answer->status == 200 ? eval { JSON::PP::decode_json($answer->body) } : undef;
}

# peers(UPSTREAM, [STATUS]): its servers as hashes in which what the status has under "labor" stands beside the rest.
sub peers {
    my ($self, $upstream, $status) = @_;
    $status //= $self->status or return;
    return map { { %$_, %{ $_->{labor} } } } @{ $status->{upstreams}{$upstream}{peers} };
}

# ---- client

# A connection to this nginx (or to a port or address), for requests one after the other; undef when refused.
sub connection { my ($self, $where) = @_; return Labor::HTTP->connect($where // $self->port) }

# get(PATH), http(METHOD, PATH): one request on a connection of its own. Options: headers => [name, value …], body, timeout.
sub get { my ($self, $path, %with) = @_; return $self->http(GET => $path, %with) }

sub http {
    my ($self, $method, $path, %with) = @_;
    my $connection = $self->connection(delete $with{port});
    my $answer = $connection && $connection->request($path // '/', %with, method => $method, close => 1);
    return $answer || bless { status => 0, headers => [], body => '', complete => 0 }, 'Labor::HTTP::Answer';
}

# burst(COUNT or [PATHS], PATH): parallel requests; their answers, undef where there was none.
sub burst {
    my ($self, $count, $path, %with) = @_;
    return Labor::HTTP->burst($self->port, ref $count ? $count : [($path // '/') x $count], %with);
}

# servers(COUNT, PATH): which model servers answered COUNT requests in a row, as {name => count}.
sub servers {
    my ($self, $count, $path) = @_;
    my %seen;
    for (1 .. $count) {
        my $answer = $self->get($path // '/');
        $seen{ $answer->header('X-Server') // 'status ' . $answer->status }++;
    }
    return \%seen;
}

# ---- the end

# Stops everything, checks what must hold after every test, and closes the plan.
sub done {
    my ($self) = @_;
    ok $self->{nginx}->stop, 'nginx ends when asked to, with all its processes';
    my @alarms = $self->{nginx}->alarms;
    ok !@alarms, 'no alert, no crash' or diag join "\n", last_lines(join("\n", @alarms), 20);
    ok $self->_stop_models, 'model servers end when asked to';
    $self->_show_log unless Test::More->builder->is_passing;
    $self->{finished} = 1;
    done_testing;
    return;
}

sub _show_log {
    my ($self) = @_;
    diag "---- end of error.log (nginx " . $self->nginx_version . ") ----\n" . last_lines($self->error_log, 30);
}

# A test that died on its way must leave no process either, and must show the log.
END {
    my $status = $?;
    if ($current && $current->{owner} == $$ && !$current->{finished}) {
        $current->{nginx}->stop('TERM');
        $current->_stop_models;
        $current->_show_log if $status && -e $current->dir . '/error.log';
    }
    $? = $status;
}

1;
