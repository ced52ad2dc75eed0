# O08: a server that is slow to accept must not collect requests: they count from the pick, not from the connection.
# fails with policy=round_robin (half of the requests, and 20 at once).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => 'accept_delay=1s', B => 'service=const:20ms');
my $off = $t->has('keepalive_default') ? 'keepalive 0;' : '';
$t->conf(<<"EOC")->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; $off }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

# What waits at A is seen from outside: its connections.
my $most = 0;
my $report = $t->load(concurrency => 20, duration => '6s', meanwhile => sub {
    my ($running) = @_;
    wait_for { my $now = $t->stats('A')->{open_connections}; $most = $now if $now > $most; !$running->() } 60;
});
is_deeply [keys %{ $report->{statuses} }], [200], 'all answered' or diag explain $report->{statuses};
cmp_ok $report->{servers}{A}{share}, '<', 0.05, 'the slow one has less than 5 %' or diag explain $report->{servers};
cmp_ok $report->{servers}{A}{count}, '>', 0, 'and is tried';
# Nothing was known when the first 20 came.
cmp_ok $most, '<=', 12, 'requests do not pile up there';

$t->done;
