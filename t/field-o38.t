# O38: a name whose addresses change all the time, and a small zone: new addresses are served though there is no room to
# learn about them, the log says so once a minute, and nothing grows.
# fails when a full zone warns each time: checked with WARN_EVERY (src/zone.rs) at 0; and when it refuses service.
use strict;
use warnings;
use Labor::Test;
use Labor::Util qw(slurp);

my $t = Labor::Test->new;
$t->needs('resolve');
# Every address of the rotation is this nginx itself, which says where the request came in.
my ($changes, $each) = (12, 60);
my @sets = map { my $set = $_; [map { "127.1.$set.$_" } 1 .. $each] } 1 .. $changes;
my $listen = join ' ', map { "listen $_:%%PORT_back%%;" } map { @$_ } @sets;
$t->dns('many.test' => $sets[0]);
$t->conf(<<"EOC")->run;
    labor_zone 256k;
    resolver %%DNS%% valid=1s ipv6=off;
    upstream u { zone u 1m; labor; server many.test:%%PORT_back%% resolve; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
    server { $listen location / { add_header X-Server \$server_addr; return 200 ok; } }
EOC

my $zone = $t->status->{zone};
cmp_ok $zone->{peers_max}, '<', $changes * $each / 2, 'the zone is too small for all' or diag explain $zone;

# Resident memory of the workers, kB.
sub resident { my $sum = 0; for (@_) { $sum += $1 if slurp("/proc/$_/status") =~ /VmRSS:\s+(\d+)/ } return $sum }

my ($bad, %seen, $before) = 0;
for my $set (0 .. $#sets) {
    $t->dns('many.test' => $sets[$set]);
    my $prefix = '127.1.' . ($set + 1) . '.';
    ok wait_for {
        # Several at once, so that they spread.
        for my $answer ($t->burst(12, '/')) {
            my $server = $answer && $answer->header('X-Server');
            if ($server) { $seen{$server}++ }
            elsif (%seen) { $bad++ }
        }
        grep({ index($_, $prefix) == 0 } keys %seen) >= 5;
    }, "set $set is served";
    $before = resident($t->workers) if $set == 4;
}
is $bad, 0, 'every request was answered';
$zone = $t->status->{zone};
cmp_ok $zone->{peers_used}, '<=', $zone->{peers_max}, 'no more records than fit' or diag explain $zone;
my @warnings = grep { /labor: zone is full/ } split /\n/, $t->error_log;
ok @warnings && @warnings <= 1 + (time - $^T) / 60, 'one warning a minute' or diag explain \@warnings;
my $growth = resident($t->workers) - $before;
cmp_ok $growth, '<', 2048 * $t->workers, 'memory does not grow with the addresses that went' or diag "$growth kB";

$t->done;
