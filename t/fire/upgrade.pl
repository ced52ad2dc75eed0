# Another binary takes over from the running one (USR2, then QUIT to the old master), again and again, under load:
#
#     UPGRADES=3 perl -It/lib t/fire/upgrade.pl
#
# nginx takes USR2 only when its parent is gone, so it is started by a process that ends, and found by its group.

use strict;
use warnings;

use Labor::Fire qw(in_flight signals);
use Labor::Nginx;
use Labor::Test;
use Labor::Util qw(slurp spawn group_members);

alarm 600;
my $upgrades = $ENV{UPGRADES} || 2;
my $t = Labor::Test->new(reload => 0);
$t->model(A => 'service=const:3ms', B => 'service=const:3ms');
$t->conf('upstream u { labor; labor_check interval=200ms timeout=150ms; server %%ADDR_A%%; server %%ADDR_B%%; } server { listen %%LISTEN%%; location / { proxy_pass http://u; } }');
$t->write_conf;

my ($dir, $binary) = ($t->dir, Labor::Nginx::binary());
my $group = spawn("$dir/stdout", "$dir/stderr", 'sh', '-c',
    qq('$binary' -p '$dir' -c '$dir/conf/nginx.conf' -e '$dir/error.log' & until [ -s '$dir/nginx.pid' ]; do sleep 0.05; done));
waitpid $group, 0;
$t->nginx->{pid} = $group;
sub masters { return grep { slurp("/proc/$_/cmdline") =~ /^nginx: master/ } group_members($group) }
ok wait_for { (my @workers = $t->workers) >= 2 }, 'nginx runs, without a parent';

my ($done, $current) = (0, masters());
my $report = $t->load(concurrency => 8, duration => (3 * $upgrades) . 's', timeout => '10s', meanwhile => sub {
    for (1 .. $upgrades) {
        kill 'USR2', $current;
        my $new = wait_for { my ($pid) = grep { $_ != $current } masters(); $pid } or last;
        wait_for { (my @workers = $t->workers) >= 4 } or last;
        kill 'QUIT', $current;
        wait_for { (my @left = group_members($group)) == 3 } or last;
        $current = $new;
        $done++;
    }
});
is $done, $upgrades, "$upgrades upgrades of the running binary under load";
is $report->{error_count}, 0, "none of $report->{count} requests failed" or diag explain $report->{errors};
is_deeply [keys %{ $report->{statuses} }], [200], 'all answers were 200';
is scalar signals($t), 0, 'no process died';
is $t->load(concurrency => 4, requests => 200)->{statuses}{200}, 200, 'the last one serves';
eventually { in_flight($t) == 0 } 'nothing is counted in flight';
kill 'QUIT', $current;
ok wait_for { !group_members($group) }, 'and ends when asked to';
$t->done;
