package Labor::Nginx;

# One nginx in a directory of its own: starts, reloads, stops it and knows its processes and its error log.
# Knows nothing of back ends and of what is tested.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Labor::Util qw(wait_for slurp spill spawn finish_child group_members);
use POSIX qw(:sys_wait_h);

my $ROOT = abs_path(dirname(__FILE__) . '/../../..');

sub binary { return $ENV{LABOR_NGINX} || "$ROOT/build/nginx" }
sub module { return $ENV{LABOR_MODULE} || "$ROOT/build/ngx_http_labor_module.so" }

sub new {
    my ($class, %with) = @_;
    my $self = bless { dir => $with{dir}, workers => $with{workers}, seen => {}, killed => {}, allowed => [] }, $class;
    for my $file (binary(), grep { $_ ne 'none' } module()) {
        die "$file is missing: run scripts/build, or set LABOR_NGINX and LABOR_MODULE\n" unless -e $file;
    }
    mkdir "$self->{dir}/$_" for qw(temp conf logs);
    return $self;
}

# What `nginx -V` says, asked once a process.
my $VERSION_TEXT;
sub version_text {
    my $binary = binary();
    return $VERSION_TEXT //= `'$binary' -V 2>&1`;
}

# The version as a number to compare with: 1.29.6 is 1.029006.
sub version {
    my ($major, $minor, $patch) = version_text() =~ m{nginx/(\d+)\.(\d+)\.(\d+)} or die 'no version in: ' . version_text();
    return sprintf '%d.%03d%03d', $major, $minor, $patch;
}

# What this nginx may lack. Nothing else may be a reason to skip.
my %FEATURE = (
    sticky => sub { version() >= 1.029006 && version_text() !~ /--without-http_upstream_sticky_module/ },
    resolve => sub { version() >= 1.027003 },
    keepalive_default => sub { version() >= 1.029007 },
    ssl => sub { version_text() =~ /--with-http_ssl_module/ },
    http2 => sub { version_text() =~ /--with-http_v2_module/ },
    ipv6 => sub { IO::Socket::IP->new(LocalHost => '::1', Listen => 1) },
);

sub has {
    my ($feature) = @_;
    my $test = $FEATURE{$feature} or die "unknown feature '$feature'";
    return $test->() ? 1 : 0;
}

# The whole configuration around an http block.
sub configuration {
    my ($self, $http, %with) = @_;
    my $user = $> == 0 ? 'user ' . ($with{user} // 'root') . ';' : '';
    my $main = $with{main} // '';
    my $events = $with{events} // 'worker_connections 4096;';
    my $temp = join "\n", map { "    ${_}_temp_path $self->{dir}/temp/$_;" } qw(client_body proxy fastcgi uwsgi scgi);
    # The default would be a file outside of this directory; `off` would win over one that a test asks for.
    my $access = $http =~ /^    access_log/m ? '' : 'access_log off;';
    # LABOR_MODULE=none: what does nginx itself do in this test?
    my $module = module() eq 'none' ? '' : 'load_module "' . module() . '";';
    return <<"EOT";
$module
daemon off;
$user
pid $self->{dir}/nginx.pid;
error_log $self->{dir}/error.log notice;
worker_processes $self->{workers};
$main
events {
    $events
}
http {
$temp
    $access
    keepalive_requests 1000000;
$http
}
EOT
}

# check(TEXT): `nginx -t` on a whole configuration; (true when it is good, everything it said).
sub check {
    my ($self, $text) = @_;
    my $file = "$self->{dir}/conf/check.conf";
    # A log of its own, so that wrong configurations do not count as alarms of the run.
    $text =~ s{\Q$self->{dir}\E/error\.log}{$self->{dir}/check.log};
    $text =~ s{\Q$self->{dir}\E/nginx\.pid}{$self->{dir}/check.pid};
    spill($file, $text);
    my $binary = binary();
    my $said = `'$binary' -t -p '$self->{dir}' -c '$file' -e '$self->{dir}/check.log' 2>&1`;
    return ($? == 0, $said);
}

sub write_conf { spill("$_[0]{dir}/conf/nginx.conf", $_[1]); return }

# Starts nginx; returns '' or, when it did not come up, what it said.
sub start {
    my ($self) = @_;
    my $dir = $self->{dir};
    my $before = length $self->log;
    unlink "$dir/nginx.pid";
    $self->{pid} = spawn("$dir/stdout", "$dir/stderr", binary(), '-p', $dir, '-c', "$dir/conf/nginx.conf",
        '-e', "$dir/error.log");
    my $up = wait_for { $self->_up || waitpid($self->{pid}, WNOHANG) };
    return '' if $up && $self->_up;
    my $said = substr($self->log, $before) || slurp("$dir/stderr") || 'nginx said nothing';
    finish_child($self->{pid}, 'KILL', 5);
    delete $self->{pid};
    return $said;
}

sub _up {
    my ($self) = @_;
    return -s "$self->{dir}/nginx.pid" && $self->workers >= $self->{workers};
}

sub running { return defined $_[0]{pid} }
sub pid { return $_[0]{pid} }
sub log { return slurp("$_[0]{dir}/error.log") }

# Pids of workers that take new connections.
sub workers {
    my ($self) = @_;
    return unless $self->{pid};
    my @workers = grep { slurp("/proc/$_/cmdline") =~ /^nginx: worker process(?! is shutting)/ }
        group_members($self->{pid});
    $self->{seen}{$_} = 1 for @workers;
    return @workers;
}

# Reloads and waits until new workers serve and no old one takes new connections. Returns the old workers' pids; dies with
# nginx's words when it keeps the old configuration.
sub reload {
    my ($self) = @_;
    my %old = map { $_ => 1 } $self->workers;
    my $before = length $self->log;
    kill 'HUP', $self->{pid};
    my $said = '';
    my $done = wait_for {
        $said = substr $self->log, $before;
        return 1 if $said =~ /\[emerg\]/;
        my @now = $self->workers;
        return @now >= $self->{workers} && !grep { $old{$_} } @now;
    };
    die "reload failed: $said\n" if !$done || $said =~ /\[emerg\]/;
    return sort { $a <=> $b } keys %old;
}

# True when all of these processes have ended within SECONDS.
sub wait_gone {
    my ($self, $pids, $seconds) = @_;
    my %pids = map { $_ => 1 } @$pids;
    return wait_for { !grep { $pids{$_} } group_members($self->{pid}) } $seconds;
}

# Kills a worker and waits for the master to put another in its place.
sub kill_worker {
    my ($self, $pid, $signal) = @_;
    $signal //= 'KILL';
    $self->{killed}{$pid} = 1;
    kill $signal, $pid or die "no worker $pid: $!";
    return wait_for {
        my @now = $self->workers;
        @now >= $self->{workers} && !grep { $_ == $pid } @now;
    };
}

# expect_death(PIDS): workers that a test kills by itself.
sub expect_death { my ($self, @pids) = @_; $self->{killed}{$_} = 1 for @pids; return }

# Stops nginx: gracefully unless told otherwise. True when everything ended by itself.
sub stop {
    my ($self, $signal) = @_;
    my $pid = delete $self->{pid} or return 1;
    my $clean = finish_child($pid, $signal // 'QUIT', 10);
    my @left = group_members($pid);
    if (@left) {
        wait_for { !group_members($pid) } 2;
        @left = group_members($pid) or return $clean;
        kill 'KILL', -$pid;
        return 0;
    }
    return $clean;
}

# allow(PATTERN): alarms that a test provokes on purpose.
sub allow { push @{ $_[0]{allowed} }, $_[1]; return }

# Lines of the error log (and of stderr) that no test may leave behind.
sub alarms {
    my ($self) = @_;
    my @lines = split /\n/, $self->log . slurp("$self->{dir}/stderr");
    my @bad = grep { /\[(?:alert|emerg|crit)\]|exited on signal|exited with fatal code|panicked at/
        || /(?:Address|Leak|Thread|Memory)Sanitizer|runtime error:/ } @lines;
    @bad = grep { !(/process (\d+) exited on signal/ && $self->{killed}{$1}) } @bad;
    for my $pattern (@{ $self->{allowed} }) { @bad = grep { !/$pattern/ } @bad }
    return @bad;
}

1;
