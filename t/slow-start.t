# slow_start: whose ramp begins when, that it goes by one clock over reloads and workers, and that backups serve the rest.
# fails without: the ramp of what comes back from `down` (half of the requests at once), the step for backups in select.rs.
use strict;
use warnings;
use Labor::Api;
use Labor::Test;

my $t = Labor::Test->new(workers => 4);
$t->model(map { $_ => 'service=const:5ms' } qw(A B P Q));
$t->conf(<<'EOC' . Labor::Api::server())->run;
    upstream u { labor slow_start=10m; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream tiers { labor slow_start=6s; server %%ADDR_P%% max_fails=2 fail_timeout=1s; server %%ADDR_Q%% backup; }
    upstream off { labor policy=round_robin; server %%ADDR_A%%; server %%ADDR_B%%; }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; }
        location /tiers { proxy_pass http://tiers; }
        location /off { proxy_pass http://off; }
    }
EOC
my $api = Labor::Api->new($t);

# What the status says of a server.
sub server {
    my ($upstream, $name) = @_;
    return (grep { $_->{server} eq $t->expand("%%ADDR_$name%%") } $t->peers($upstream))[0];
}
sub set { my ($upstream, $name, $state) = @_; is +($api->patch("/upstreams/$upstream/servers/" . $t->expand("%%ADDR_$name%%"), { state => $state }))[0], 200, "$name of $upstream: $state" }

# Back from down: the first request at once, few for a while.
$t->servers(60, $_) for '/', '/off';
is server('u', 'B')->{state}, 'up', 'all were new: nobody ramps';
# What is so before anybody has looked is how things were from the start, and no event.
eventually { defined server('u', 'B')->{state_since} } 'somebody has looked';
for my $upstream ('u', 'off') {
    set($upstream, 'B', 'down');
    set($upstream, 'B', 'up');
}
my $seen = $t->servers(100);
cmp_ok $seen->{B}, '>=', 1, 'the first request comes at once';
cmp_ok $seen->{B}, '<=', 15, '… and few follow: an even share were 50';
cmp_ok $t->servers(60, '/off')->{B}, '>', 15, 'without slow_start it has its half at once';
my $b = server('u', 'B');
is $b->{state}, 'ramping', 'the status has a word for it';
ok $b->{ramp} >= 0.1 && $b->{ramp} < 0.9, '… and says how far it is' or diag $b->{ramp};
like $t->http(GET => '/', port => $t->port('_STATUS'), headers => [Accept => 'text/plain'])->body // '', qr/ramping/, 'so does the answer as a whole';
eventually { grep { $_->{reason} eq 'ramping' } @{ $t->status->{upstreams}{u}{labor}{events} } } 'it is an event';

# By one clock: neither a reload nor a killed worker begins it anew.
my $before = server('u', 'B')->{ramp};
$t->reload;
ok $t->kill_worker(($t->workers)[0]), 'a worker is killed';
cmp_ok $t->servers(60)->{B} // 0, '<=', 12, 'reload and killed worker: still few';
cmp_ok server('u', 'B')->{ramp}, '>=', $before, '… and it went on';

# The only primary comes back: the backup goes on serving what is beyond its ramp, and hands over in the end.
is_deeply $t->servers(20, '/tiers'), { P => 20 }, 'the primary serves';
$t->close('P');
is_deeply $t->servers(20, '/tiers'), { Q => 20 }, 'it is gone: the backup serves';
$t->open('P');
my (@rounds, %both);
eventually {
    $t->get('/tiers');
    server('tiers', 'P')->{state} eq 'ramping';
} 'it is back, and ramps';
eventually {
    my $now = $t->servers(10, '/tiers');
    push @rounds, $now->{P} // 0;
    $both{$_} += $now->{$_} for keys %$now;
    ($now->{P} // 0) == 10 && server('tiers', 'P')->{state} eq 'up';
} 'O07: and has everything in the end', 30;
diag "of ten: @rounds";
cmp_ok $both{Q} // 0, '>', 5, 'O07: the backup served beside it';
is join(' ', sort keys %both), 'P Q', 'and nobody got an error';

$t->done;
