package Labor::Fire;

# What t/fire/*.pl share: shapes of configuration, and what processes hold. No checks of its own.

use strict;
use warnings;

use Exporter 'import';
use Labor::Util qw(slurp group_members);

our @EXPORT_OK = qw(shapes footprint in_flight signals);

# Configurations that differ in everything a reload can change: upstreams, their order and names, zones and sizes, policies.
# Model servers S1 to S6.
sub shapes {
    my @names = map { "S$_" } 1 .. 6;
    my %server = map { $_ => "server %%ADDR_$_%%;" } @names;
    my $many = join "\n", map { "upstream m$_ { labor; @server{qw(S1 S2)} $server{\"S$_\"} }" } 1 .. 6;
    my $pass = 'proxy_pass http://u;';
    my $conf = sub {
        my ($upstreams, $location) = @_;
        return "$upstreams\nserver { listen %%LISTEN%%; location / { $location } }\n";
    };
    return (
        $conf->('', 'return 200;'),
        $conf->("upstream u { labor; $server{S1} }", $pass),
        $conf->("upstream u { labor; @server{qw(S1 S2 S3)} }", $pass),
        $conf->("upstream u { labor; @server{qw(S3 S1 S2)} keepalive 8; }", $pass),
        $conf->("upstream v { labor; @server{qw(S1 S2 S3)} }", 'proxy_pass http://v;'),
        $conf->("upstream u { zone u 128k; labor; @server{qw(S1 S2 S3)} }", $pass),
        $conf->("labor_zone 4m; upstream u { labor; @server{@names} }", $pass),
        $conf->("labor_zone 1m; upstream u { zone u 256k; labor header half_life=10s; @server{@names} }", $pass),
        $conf->("$many\nupstream u { labor policy=weighted; @server{qw(S4 S5)} $server{S6} }", $pass),
        $conf->("upstream u { labor policy=round_robin; @server{qw(S1 S2)} } upstream w { labor policy=decay; $server{S1} }", $pass),
        $conf->("upstream u { labor policy=least_conn; $server{S2} server %%ADDR_S3%% backup; server %%ADDR_S4%% down; }", $pass),
        $conf->("upstream u { least_conn; @server{qw(S1 S2)} }", $pass),
        $conf->("upstream u { labor slow_start=2s; labor_breaker fails=2 open=1s; @server{qw(S1 S2 S3)} }", $pass),
        $conf->("upstream u { labor; labor_hash \$arg_k\$remote_port; @server{qw(S2 S3)} server %%ADDR_S4%% backup; }", $pass),
        $conf->("upstream u { labor; labor_check interval=100ms; @server{qw(S1 S2)} } upstream w { labor; labor_check type=tcp; @server{qw(S2 S3)} }", $pass),
        $conf->("upstream u { zone u 256k; labor; labor_check interval=200ms idle; labor_breaker; @server{qw(S1 S2)} server %%ADDR_S3%% backup; }", $pass),
        $conf->("labor_state %%DIR%%/state; upstream u { labor explore=off; @server{qw(S1 S2)} }", $pass),
    );
}

# footprint(TEST): resident memory of master and workers, kB, and the master's open files.
sub footprint {
    my ($t) = @_;
    my $master = $t->nginx->pid;
    my $resident = sub { slurp("/proc/$_[0]/status") =~ /^VmRSS:\s*(\d+)/m ? $1 : 0 };
    my $workers = 0;
    $workers += $resident->($_) for grep { $_ != $master } group_members($master);
    return { master => $resident->($master), workers => $workers, files => scalar(my @files = glob "/proc/$master/fd/*") };
}

# in_flight(TEST, [UPSTREAM]): requests and connections that the status counts, of one upstream or of all; -1 without a status.
sub in_flight {
    my ($t, $upstream) = @_;
    my $status = $t->status or return -1;
    my $sum = 0;
    for my $name (defined $upstream ? $upstream : keys %{ $status->{upstreams} }) {
        $sum += $_->{in_flight} + $_->{connections} for $t->peers($name, $status);
    }
    return $sum;
}

# signals(TEST): lines of the error log about processes that died of a signal.
sub signals { return grep { /exited on signal|exited with fatal code/ } split /\n/, $_[0]->error_log }

1;
