# O03: requests of very different cost on equal servers: 90 % take 5 ms, 10 % 800 ms. That is no property of a server.
# A minute, as in the report: the shares of a third of it scatter by more than the eight per cent.
# fails with weight=3 at one server, and with a server that is really slower (bimodal:5ms:800ms:0.3).
# waits
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(map { $_ => 'service=bimodal:5ms:800ms:0.1' } qw(A B C));
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; server %%ADDR_C%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

# By chance one minute in 130 is further off (simulated: 2000 minutes, half of them within 2.4 %, one in a hundred beyond 7.5 %);
# not so three in a row.
my @off;
for my $minute (1 .. 3) {
    my $servers = $t->load(concurrency => 12, duration => '60s')->{servers};
    @off = grep { abs(($servers->{$_}{share} // 0) - 1 / 3) >= 0.08 } qw(A B C);
    last unless @off;
    diag explain $servers;
}
is "@off", '', 'each has its third, to eight per cent';

$t->done;
