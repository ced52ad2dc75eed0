# O04: no healthy server may starve: equal gRPC servers, no window in which one of them gets nothing.
# fails with ip_hash in place of labor.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->needs('http2');
$t->model(map { $_ => 'protocol=grpc,service=exp:10ms,k=8' } qw(A B C));
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; server %%ADDR_C%%; }
    server { listen %%LISTEN%%; location / { grpc_pass grpc://u; } }
EOC

my $report = $t->load(rate => 100, duration => '18s', timeline => '2s');
is_deeply [keys %{ $report->{statuses} }], [200], 'all answered' or diag explain $report->{statuses};
my @windows = grep { $_->{count} > 100 } @{ $report->{timeline} };
cmp_ok scalar @windows, '>=', 8, 'there are windows';
for my $name (qw(A B C)) {
    my @empty = grep { !$_->{shares}{$name} } @windows;
    is scalar @empty, 0, "no window without $name" or diag explain \@windows;
    ok abs($report->{servers}{$name}{share} - 1 / 3) < 0.1, "$name has its third" or diag explain $report->{servers};
}

$t->done;
