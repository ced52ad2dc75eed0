# O12: a breaker opens after the same number of failures every time. O39: errors that come one by one do not open it; answers that break off
# after their header are failures, and which statuses are is set. O13: when all fail, requests go on and the status says how it stands.
# fails without: the counters that begin anew with each change of state, the outcome of a truncated body.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(workers => 1, reload => 0);
$t->model(map { $_ => '' } qw(A B D E P Q));
$t->conf(<<'EOC')->run;
    upstream u { labor policy=round_robin; labor_breaker fails=4 open=1s max_open=1s; server %%ADDR_A%% max_fails=0; server %%ADDR_B%% max_fails=0; }
    upstream drip { labor policy=round_robin failure=418,503; labor_breaker fails=3; server %%ADDR_D%% max_fails=0; server %%ADDR_E%% max_fails=0; }
    upstream all { labor; labor_breaker fails=2; server %%ADDR_P%% max_fails=0; server %%ADDR_Q%% max_fails=0; }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; }
        location /drip { proxy_pass http://drip; }
        location /all { proxy_pass http://all; }
    }
EOC
sub server { my ($upstream, $name) = @_; return (grep { $_->{server} eq $t->expand("%%ADDR_$name%%") } $t->peers($upstream, $t->status("upstream=$upstream")))[0] }

# It trips, recovers, and trips again, and each time takes as many failures.
my @needed;
for my $round (1 .. 3) {
    $t->set(A => 'fail=1:504');
    my $failed = 0;
    until (server('u', 'A')->{breaker}{state} ne 'closed' || $failed > 20) {
        $failed++ if $t->get('/')->status == 504;
    }
    push @needed, $failed;
    $t->set(A => 'fail=0');
    eventually { $t->get('/') for 1 .. 4; server('u', 'A')->{breaker}{state} eq 'closed' } "round $round: it closes again", 30;
}
is "@needed", '4 4 4', 'the same number of failures every time';

# Every third request fails: no breaker.
for my $round (1 .. 12) {
    $t->set(D => 'fail=1:503');
    $t->get('/drip') for 1 .. 2;
    $t->set(D => 'fail=0');
    $t->get('/drip') for 1 .. 4;
}
cmp_ok server('drip', 'D')->{failures}{status}, '>=', 12, 'errors came one by one';
is server('drip', 'D')->{breaker}{state}, 'closed', '… and opened nothing';
# The list of statuses is the operator's: 418 is in it, 500 is not.
$t->set(D => 'fail=1:500');
$t->get('/drip') for 1 .. 12;
is server('drip', 'D')->{breaker}{state}, 'closed', 'a status that is no failure';
$t->set(D => 'fail=1:418');
$t->get('/drip') for 1 .. 6;
isnt server('drip', 'D')->{breaker}{state}, 'closed', 'one that is';
$t->set(E => 'reset=body,body=1000');
eventually { $t->get('/drip') for 1 .. 3; server('drip', 'E')->{failures}{reset} >= 3 } 'answers that break off after their header count';

# All fail: nobody is shut out, and it shows.
$t->set($_ => 'fail=1:503') for qw(P Q);
my $seen = $t->servers(40, '/all');
is join(' ', sort keys %$seen), 'P Q', 'requests are tried all the same' or diag explain $seen;
my @states = map { $_->{state} } $t->peers('all', $t->status('upstream=all'));
ok grep({ $_ eq 'open' } @states) == 1 && grep({ $_ eq 'lowered' } @states) == 1, 'half of them are out, and the rest is lowered' or diag "@states";

$t->done;
