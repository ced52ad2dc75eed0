# O10: a server is added while all requests are long: no old server may take most of the traffic after that.
# fails with ip_hash in place of labor (one server has all 30).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
$t->model(map { $_ => 'service=const:2s' } qw(A B C D));
sub conf {
    my $servers = join ' ', map { "server %%ADDR_$_%%;" } @_;
    return "upstream u { labor; $servers }\n server { listen %%LISTEN%%; location / { proxy_pass http://u; } }\n";
}

$t->conf(conf(qw(A B C)))->run;
my $report = $t->load(concurrency => 30, duration => '14s', meanwhile => sub {
    my ($running) = @_;
    # Two rounds of answers first.
    wait_for { my $sum = 0; $sum += $_->{answers} for values %{ $t->stats }; $sum >= 60 };
    $t->reset;
    $t->conf(conf(qw(A B C D)))->reload;
    wait_for { !$running->() } 60;
});
is_deeply [keys %{ $report->{statuses} }], [200], 'all answered' or diag explain $report->{statuses};
my $stats = $t->stats;
for my $name (qw(A B C D)) {
    # 10 each before, 7.5 after.
    cmp_ok $stats->{$name}{max_in_flight}, '<=', 15, "$name never has half of the requests" or diag explain $stats;
}
cmp_ok $stats->{D}{requests}, '>=', 7, 'the new server takes part' or diag explain $stats;

$t->done;
