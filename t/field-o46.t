# O46: a server answers 503 for a while, a hundred clients and four workers come at once: a few trials in each period over all
# workers, and none of them a crowd that brings it down again.
# fails with: labor_breaker off (it is never open, and a third of the requests fail).
# waits
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(workers => 4);
$t->model(map { $_ => 'service=const:100ms' } qw(A B C));
$t->conf(<<'EOC')->run;
    upstream u {
        labor policy=round_robin;
        labor_breaker fails=5 open=2s max_open=2s;
        server %%ADDR_A%% max_fails=0; server %%ADDR_B%% max_fails=0; server %%ADDR_C%% max_fails=0;
    }
    server { listen %%LISTEN%%; proxy_next_upstream off; location / { proxy_pass http://u; } }
EOC

sub server_b { return (grep { $_->{server} eq $t->expand('%%ADDR_B%%') } $t->peers('u'))[0] }

$t->load(concurrency => 100, requests => 300);
$t->set(B => 'fail=1:503');
$t->load(concurrency => 100, duration => '1s');
eventually { my $b = server_b(); $b->{breaker}{state} eq 'open' && $b->{in_flight} == 0 } 'it is open, and what it had is over';
# Open for 1.6 to 2.4 s each time: in six seconds at most four trials, each of which opens it again.
my $before = $t->stats('B')->{answers};
my $report = $t->load(concurrency => 100, duration => '6s');
my $trials = $t->stats('B')->{answers} - $before;
cmp_ok $trials, '>=', 1, 'it is tried';
cmp_ok $trials, '<=', 6, "few trials in six seconds: $trials of $report->{count} requests";
is $report->{statuses}{503} // 0, $trials, 'and nothing else failed';

$t->done;
