# O43: `keepalive` must work before and after the method, and without the directive where it is nginx's default (1.29.7).
# fails without the directive on older versions, and with `keepalive 0` (a connection for each request).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
my %block = (
    after => 'labor; server %%ADDR_after1%%; server %%ADDR_after2%%; keepalive 16;',
    before => 'keepalive 16; labor; server %%ADDR_before1%%; server %%ADDR_before2%%;',
    $t->has('keepalive_default') ? (default => 'labor; server %%ADDR_default1%%; server %%ADDR_default2%%;') : (),
);
$t->model(map { ("${_}1" => 'service=const:2ms', "${_}2" => 'service=const:2ms') } keys %block);
my $upstreams = join '', map { "upstream $_ { $block{$_} }\n" } sort keys %block;
my $locations = join '', map { "location /$_ { proxy_pass http://$_; }\n" } sort keys %block;
$t->conf(<<"EOC")->run;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    $upstreams
    server { listen %%LISTEN%%; $locations }
EOC

my ($clients, $requests) = (4, 400);
for my $order (sort keys %block) {
    my $report = $t->load(path => "/$order", concurrency => $clients, requests => $requests);
    is $report->{statuses}{200}, $requests, "$order: all answered";
    my @stats = map { $t->stats("$order$_") } 1, 2;
    ok $stats[0]{requests} && $stats[1]{requests}, "$order: by both" or diag explain \@stats;
    # At most as many as requests at once, in each worker and to each server.
    my $connections = $stats[0]{connections} + $stats[1]{connections};
    cmp_ok $connections, '<=', $clients * $t->workers * 2, "$order: connections are used again";
}

$t->done;
