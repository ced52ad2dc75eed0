# O37: a name whose only address changes every two seconds must not cost a request.
# fails with addresses at which nobody listens; checked with a name server that answers 127.0.0.4.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->needs('resolve');
# One port, two addresses.
$t->model(A => 'listen=127.0.0.2:0,service=const:5ms');
my $port = $t->port('A');
$t->model(B => "listen=127.0.0.3:$port,service=const:5ms");
$t->dns('app.test' => ['127.0.0.2']);
$t->conf(<<"EOC")->run;
    resolver %%DNS%% valid=1s ipv6=off;
    upstream u { zone u 256k; labor; server app.test:$port resolve; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC
eventually { $t->get('/')->status == 200 } 'the name is resolved';
# A slow start may have cost a request until then.
my $resolved = length $t->error_log;

my $changes = 0;
my $report = $t->load(rate => 200, duration => '10s', meanwhile => sub {
    my ($running) = @_;
    until (wait_for { !$running->() } 2) { $t->dns('app.test' => [++$changes % 2 ? '127.0.0.3' : '127.0.0.2']) }
});
cmp_ok $changes, '>=', 3, 'the address has changed';
is_deeply [keys %{ $report->{statuses} }], [200], 'no request was lost' or diag explain $report->{statuses};
is scalar(grep { $_ } values %{ $report->{errors} }), 0, 'nor broken' or diag explain $report->{errors};
cmp_ok $report->{servers}{$_}{share}, '>', 0.2, "$_ was used" for qw(A B);
unlike substr($t->error_log, $resolved), qr/no live upstreams/, 'there was always somebody';

$t->done;
