# O05: two servers that join sixty under slow_start get picks in their first seconds, and their share by the clock. O06: the ramp is one
# for all ways to a server: by score, by key, and by a retry.
# fails without: the first pick of a ramp at once (none in a second at 1/60 of 10 %), at_cap() in affinity (half of the keys at once).
use strict;
use warnings;
use Labor::Api;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(map { $_ => 'service=const:2ms' } qw(S C D A B F));
sub conf {
    my ($more) = @_;
    return 'upstream u { labor slow_start=5s; ' . 'server %%ADDR_S%%;' x 58 . " $more }\n" . <<'EOC' . Labor::Api::server();
    upstream keyed { labor slow_start=10m; labor_hash $arg_k; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream retried { labor slow_start=10m policy=round_robin; server %%ADDR_F%% max_fails=0; server %%ADDR_A%%; server %%ADDR_B%%; }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; }
        location /keyed { proxy_pass http://keyed; }
        location /retried { proxy_pass http://retried; proxy_next_upstream http_503; }
    }
EOC
}
$t->conf(conf(''))->run;
# Eight answers and more from each: before that all are new, and nobody is led.
$t->load(rate => 800, uniform => 1, duration => '1s');
$t->conf(conf('server %%ADDR_C%%; server %%ADDR_D%%;'))->reload;

# The first picks, at the rate that starved others: a share of a hundred requests a second.
my $first = $t->load(rate => 100, uniform => 1, duration => '4s')->{servers};
cmp_ok(($first->{$_} || {})->{count} // 0, '>=', 1, "$_ is asked within four seconds") for qw(C D);
my ($c) = grep { $_->{server} eq $t->expand('%%ADDR_C%%') } $t->peers('u');
is $c->{state}, 'ramping', 'while it ramps';
eventually { !grep { $_->{state} eq 'ramping' } $t->peers('u') } 'the ramps end by the clock';
my $share = $t->load(rate => 300, uniform => 1, duration => '4s')->{servers};
# Twenty each are even; equal servers take turns.
cmp_ok(($share->{$_} || {})->{count} // 0, '>=', 8, "$_ has its share afterwards") or diag explain $share for qw(C D);

# By key and by retry.
my $api = Labor::Api->new($t);
$t->get("/keyed?k=$_") for 1 .. 60;
$t->servers(30, '/retried');
for my $upstream (qw(keyed retried)) {
    is +($api->patch("/upstreams/$upstream/servers/" . $t->expand('%%ADDR_B%%'), { state => $_ }))[0], 200, "B of $upstream: $_" for qw(down up);
}
my %by_key;
$by_key{ $t->get("/keyed?k=$_")->header('X-Server') }++ for 1 .. 100;
cmp_ok $by_key{B} // 0, '<=', 25, 'keys: few come home while it ramps' or diag explain \%by_key;
cmp_ok $by_key{B} // 0, '>=', 1, '… but some do';
$t->set(F => 'fail=1:503');
my $retried = $t->servers(90, '/retried');
cmp_ok $retried->{B} // 0, '<=', 22, 'retries: few' or diag explain $retried;
is(($retried->{A} // 0) + ($retried->{B} // 0), 90, '… and all are answered');

$t->done;
