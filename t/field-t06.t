# T06: a server that vanished from the network: it takes requests and never answers, or does not even accept connections.
# Requests in flight speak against it before anything times out.
# nginx itself does not count failures here (max_fails=0), so that it is not its merit.
# fails with: policy=round_robin (every client is caught again and again; least_conn loses one every two seconds).
# waits
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
my %how = (
    hang => sub { $t->set($_[0] => 'hang') },
    block => sub { $t->block($_[0]) },
);
my @hows = sort keys %how;
$t->model(map { ("A_$_" => 'service=const:20ms', "B_$_" => 'service=const:20ms') } @hows);
my $upstreams = join '', map { "upstream $_ { labor; server %%ADDR_A_$_%% max_fails=0; server %%ADDR_B_$_%% max_fails=0; }\n" } @hows;
my $locations = join '', map { "location /$_ { proxy_pass http://$_; }\n" } @hows;
$t->conf(<<"EOC")->run;
    proxy_read_timeout 2s;
    proxy_connect_timeout 2s;
    log_format pick '\$upstream_addr';
    access_log %%DIR%%/access.log pick;
    $upstreams
    server { listen %%LISTEN%%; $locations }
EOC

for my $how (@hows) {
    my $seen = $t->load(path => "/$how", concurrency => 8, duration => '1s');
    is $seen->{error_count}, 0, "$how: all well at first";
    $how{$how}->("A_$how");
    # Long enough for a trial after the first time-outs.
    my @requests = $t->requests(path => "/$how", concurrency => 8, duration => '9s');
    is scalar(grep { $_->{status} ne '200' } @requests), 0, "$how: every request is answered in the end";
    my @slow = grep { $_->{latency} > 1 } @requests;
    cmp_ok scalar(@slow), '<', 10, "$how: fewer than ten requests wait" or diag scalar @slow;
    my $tried = grep { $_->{due} > 3 } @slow;
    cmp_ok $tried, '>=', 1, "$how: the server is still tried now and then";
    cmp_ok scalar(@requests), '>', 1000, "$how: the others go on as before";
    diag scalar(@slow) . ' slow of ' . @requests . ": @{[map { sprintf '%.1f', $_->{due} } @slow]}";
}

$t->done;
