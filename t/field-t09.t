# T09: after a start nobody is known, and unknown means usable: a first burst of 200 meets no error and no queue at one server.
# fails with: max_conns=1 on each server (nobody left: 502 at once).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
my @names = ('A' .. 'D');
$t->model(map { $_ => 'service=const:50ms' } @names);
my $servers = join ' ', map { "server %%ADDR_$_%%;" } @names;
$t->conf(<<"EOC")->run;
    upstream u { labor; $servers }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

my $report = $t->load(burst => 200);
is $report->{statuses}{200}, 200, 'a burst of 200 on a fresh start: all answered' or diag explain $report->{statuses};
for my $name (@names) {
    my $count = $t->stats($name)->{requests};
    cmp_ok $count, '>=', 25, "$name has its part of the burst: $count of 50";
    cmp_ok $count, '<=', 100, "$name has no more than double its part";
}

$t->done;
