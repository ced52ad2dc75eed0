# labor_breaker: opens after failures in a row, one trial at a time over all workers, several successes close it, the share ramps
# back; never more than its part; a killed worker leaves nothing behind; when nobody is left, the least bad is used and that is said.
# fails without: the trial's own word in breaker::trial_due (two trials hang at once), max_ejected (all three are open), Taken's note.
use strict;
use warnings;
use Labor::Api;
use Labor::Test;

my $t = Labor::Test->new(workers => 4);
$t->model((map { $_ => 'service=const:2ms' } qw(A B C D)), (map { $_ => 'fail=1:503' } qw(X Y Z)));
my $log = 'log_format pick "$upstream_addr $upstream_status $labor_reason"; access_log %%DIR%%/access.log pick;';
$t->conf(<<"EOC" . Labor::Api::server())->run;
    $log
    upstream u {
        labor policy=round_robin;
        labor_breaker fails=5 open=4s max_open=8s;
        server %%ADDR_A%% max_fails=0; server %%ADDR_B%% max_fails=0; server %%ADDR_C%% max_fails=0; server %%ADDR_D%% max_fails=0;
    }
    upstream all { labor; labor_breaker; server %%ADDR_X%% max_fails=0; server %%ADDR_Y%% max_fails=0; server %%ADDR_Z%% max_fails=0; }
    upstream dead { labor; labor_breaker max_ejected=100% open=60s; server %%DEAD%% max_fails=0; server %%DEAD2%% max_fails=0; server %%ADDR_A%% down; }
    upstream off { labor; server %%ADDR_A%%; }
    server {
        listen %%LISTEN%%;
        proxy_read_timeout 3s;
        location / { proxy_pass http://u; }
        location /all { proxy_pass http://all; }
        location /dead { proxy_pass http://dead; proxy_next_upstream off; }
    }
EOC

sub server {
    my ($upstream, $name) = @_;
    return (grep { $_->{server} eq $t->expand("%%$name%%") } $t->peers($upstream))[0];
}
sub state_of { return server('u', 'ADDR_B')->{state} }
sub events { return map { $_->{reason} } grep { ($_->{server} // '') eq $t->expand('%%ADDR_B%%') } @{ $t->status->{upstreams}{u}{labor}{events} } }

is server('off', 'ADDR_A')->{breaker}, undef, 'no breaker where none is asked for';
is_deeply server('u', 'ADDR_B')->{breaker}, { state => 'closed', trips => 0, trials_in => undef }, 'closed at first';

# It opens after five failures in a row, and then nobody asks it.
$t->servers(40);
$t->set(B => 'fail=1:503');
my $before = $t->stats('B')->{answers};
$t->servers(60);
is $t->stats('B')->{answers} - $before, 5, 'five requests failed';
my $breaker = server('u', 'ADDR_B')->{breaker};
is $breaker->{state}, 'open', 'it is open';
is $breaker->{trips}, 1, '… for the first time';
ok $breaker->{trials_in} > 0 && $breaker->{trials_in} <= 4.8, '… for four seconds or so' or diag $breaker->{trials_in};
is state_of(), 'open', 'the status has a word for it';

# Half open: trials that hang. Four workers and many clients let one through.
$t->set(B => 'hang');
my ($most, %seen) = (0);
$t->load(concurrency => 16, duration => '9s', meanwhile => sub {
    my ($running) = @_;
    wait_for {
        my $now = server('u', 'ADDR_B');
        $most = $now->{in_flight} if $now->{in_flight} > $most;
        $seen{ $now->{state} }++;
        !$running->();
    } 60;
});
is $most, 1, 'O46: one trial at a time over four workers, whatever comes';
ok $seen{half_open}, 'half open' or diag explain \%seen;

# The workers are killed, and so is the one that waits for a trial: the next trial comes all the same.
my @waiting;
eventually {
    push @waiting, $t->connection;
    $waiting[-1]->write(Labor::HTTP::format('/'));
    server('u', 'ADDR_B')->{in_flight} == 1;
} 'a trial hangs', 40;
ok $t->kill_worker($_), 'a worker is killed' for $t->workers;
$t->set(B => 'hang=off,fail=1:503');
$before = $t->stats('B')->{answers};
eventually { $t->load(concurrency => 4, duration => '200ms'); $t->stats('B')->{answers} > $before } 'the next trial comes all the same', 40;
@waiting = ();

# Well again: three trials, then its share grows.
$t->set(B => 'fail=0');
$before = $t->stats('B')->{answers};
eventually { $t->load(concurrency => 4, duration => '100ms'); server('u', 'ADDR_B')->{breaker}{state} eq 'closed' } 'it closes', 60;
my $had = $t->stats('B')->{answers} - $before;
cmp_ok $had, '>=', 3, 'O46: after three successes';
my @shares;
eventually { push @shares, $t->servers(40)->{B} // 0; $shares[-1] >= 9 && state_of() eq 'up' } 'and has its share again';
cmp_ok $shares[0], '<', 9, 'which took some steps' or diag "@shares";
diag "of forty: @shares";
eventually { my %seen = map { $_ => 1 } events(); $seen{opened} && $seen{closed} } 'events tell of it';
like join(' ', events()), qr/closed .*opened/, '… in their order, newest first';

# All fail: one of three is out, and the others go on.
$t->servers(60, '/all');
my %states;
$states{ $_->{breaker}{state} }++ for $t->peers('all');
is_deeply [@states{qw(open closed)}], [1, 2], 'of three that fail one is open at most' or diag explain \%states;

# Nobody is left: the least bad is used and it is said once; what an administrator took down stays down.
my $warning = qr/\[warn\].*labor: no server of upstream "dead" is usable, the least bad one is used/;
$t->get('/dead') for 1 .. 40;
is join(' ', sort map { $_->{breaker}{state} } $t->peers('dead')), 'closed open open', 'both are out';
is scalar(() = $t->error_log =~ /$warning/g), 1, 'said once';
ok $t->status->{upstreams}{dead}{labor}{fail_open}, 'the status says so';
ok !$t->status->{upstreams}{u}{labor}{fail_open}, '… and not of others';
is scalar(grep { $_ eq 'fail_open' } map { $_->{reason} } @{ $t->status->{upstreams}{dead}{labor}{events} }), 1, 'it is an event';
is server('dead', 'ADDR_A')->{picks}{panic}, 0, 'the one that is down was left alone';
ok grep({ $_->{picks}{panic} > 0 } $t->peers('dead')), 'requests were tried';

# Neither a reload nor another configuration loses it.
$t->reload;
is join(' ', sort map { $_->{breaker}{state} } $t->peers('dead')), 'closed open open', 'open over a reload';

$t->done;
