# `keepalive` in the block, before or after `labor`: connections to the servers are kept and used again.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(workers => 1, reload => 0);

# Each order has servers of its own, so that their counters say which connections it opened.
my %block = (
    after => 'labor; server %%ADDR_after1%%; server %%ADDR_after2%%; keepalive 8;',
    before => 'keepalive 8; labor; server %%ADDR_before1%%; server %%ADDR_before2%%;',
    between => 'server %%ADDR_between1%%; labor; keepalive 8; server %%ADDR_between2%%;',
    zone => 'zone z 128k; labor; server %%ADDR_zone1%%; server %%ADDR_zone2%%; keepalive 8;',
    none => 'labor; server %%ADDR_none1%%; server %%ADDR_none2%%;' . ($t->has('keepalive_default') ? 'keepalive 0;' : ''),
);
my @orders = sort keys %block;
$t->model((map { ("${_}1" => '', "${_}2" => '') } @orders), stale => 'close_idle=1:late', spare => '');

my $upstreams = join '', map { "upstream $_ { $block{$_} }\n" } @orders;
my $locations = join '', map { "location /$_ { proxy_pass http://$_; }\n" } @orders, 'stale';
$t->conf(<<"EOC")->run;
    log_format v '\$uri \$status \$labor_reason';
    access_log %%DIR%%/access.log v;
    $upstreams
    upstream stale { labor; server %%ADDR_stale%% max_fails=1 fail_timeout=1h; server %%ADDR_spare%% backup; keepalive 8; }
    server {
        listen %%LISTEN%%;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        $locations
    }
EOC

my $each = 30;
for my $order (@orders) {
    my $good = grep { $t->get("/$order")->status == 200 } 1 .. $each;
    is $good, $each, "$order: all answered";
    my ($one, $two) = map { $t->stats("$order$_") } 1, 2;
    is $one->{requests} + $two->{requests}, $each, "$order: each request once";
    my $connections = $one->{connections} + $two->{connections};
    if ($order eq 'none') { is $connections, $each, 'without keepalive: a connection each' }
    else { is $connections, 2, "keepalive $order labor: one connection a server" }
}

# A kept connection that its server closes as the next request arrives is no failure of the server: the request is sent
# again elsewhere, and max_fails=1 does not count the server out. So it serves every second request.
my $good = grep { $t->get('/stale')->status == 200 } 1 .. 12;
is $good, 12, 'stale connections: all answered';
cmp_ok $t->stats('stale')->{answers}, '>=', 5, 'the server was not counted out'
    or diag explain { map { $_ => $t->stats($_) } qw(stale spare) };

$t->done;
