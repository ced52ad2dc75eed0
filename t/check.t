# labor_check: what unhealthy servers get (nothing), what is shown, who probes (one worker, taken over when it dies), state over
# reloads (T09), fail-open (T07), recovery on its own (T10), and that a loop of our own that hangs is nobody's fault (O28).
# fails without: Fit::Unhealthy in stand() (A is asked), Check::claim (four probes a turn), Lag (A is unhealthy after the stop).
use strict;
use warnings;
use Labor::Api;
use Labor::Test;
use Labor::Util qw(slurp spill);

my $t = Labor::Test->new(workers => 4);
$t->model(map { $_ => 'service=const:2ms' } qw(A B C));
# Long enough for a busy machine: two time-outs in a row would be a verdict.
my $check = 'interval=300ms timeout=300ms';
# Health answers come from this nginx itself: sick while a file says so, whatever the server does.
my $health = join "\n", map { "server { listen %%ADDR_H$_%%; access_log off; location / { if (-f %%DIR%%/sick$_) { return 503; } return 200 well; } }" } 1 .. 2;
$t->conf(<<"EOC" . $health . Labor::Api::server())->run;
    upstream u { labor; labor_check $check uri=/h; server %%ADDR_A%%; server %%ADDR_B%%; server %%ADDR_C%% down; }
    upstream away { labor; labor_check $check port=%%PORT_H1%% body=well; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream back { labor; labor_check $check port=%%PORT_H2%%; server %%ADDR_A%%; server %%ADDR_B%% backup; }
    upstream plain { labor; server %%ADDR_A%%; }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; }
        location = /metrics { labor_status prometheus; }
        location /away { proxy_pass http://away; }
        location /back { proxy_pass http://back; }
    }
EOC

sub server {
    my ($upstream, $name) = @_;
    return (grep { $_->{server} eq $t->expand("%%ADDR_$name%%") } $t->peers($upstream, $t->status("upstream=$upstream")))[0];
}
sub state_of { return server(@_)->{state} }
sub events {
    my ($upstream, $name) = @_;
    return map { "$_->{reason} " . ($_->{detail} // '') } grep { ($_->{server} // '') eq $t->expand("%%ADDR_$name%%") }
        @{ $t->status->{upstreams}{$upstream}{labor}{events} };
}
sub asked { my (%with) = @_; return $t->servers($with{count} || 40, $with{path} || '/') }

is server('plain', 'A')->{check}, undef, 'no checks where none are asked for';
eventually { state_of('u', 'A') eq 'up' && state_of('u', 'B') eq 'up' } 'up after the first probes';
is server('u', 'A')->{check}{state}, 'healthy', '… and healthy';
is state_of('u', 'C'), 'down', 'down stays down';
is server('u', 'C')->{health_checks}{checks}, 0, '… and is not probed';

# One goes, and comes back.
$t->set(A => 'fail=1:500');
eventually { state_of('u', 'A') eq 'unhealthy' } 'a failing server is unhealthy';
my $seen = asked();
is $seen->{A} // 0, 0, 'nobody is sent there' or diag explain $seen;
is $seen->{B}, 40, 'everybody is sent to the other';
my $a = server('u', 'A');
ok $a->{health_checks}{fails} >= 2 && $a->{health_checks}{unhealthy} == 1 && !$a->{health_checks}{last_passed}, 'counted as NGINX Plus does'
    or diag explain $a->{health_checks};
is "$a->{check}{last} $a->{check}{status}", 'status 500', 'and the reason is shown';
eventually { grep { $_ eq 'check_failed status 500' } events('u', 'A') } 'the event says why' or diag explain [events('u', 'A')];
like $t->error_log, qr/\[warn\].*labor: server \Q${\$t->expand('%%ADDR_A%%')}\E of upstream "u" is unhealthy: status 500, 2 times in a row/, 'the log says it';
my $metrics = $t->get('/metrics')->body;
like $metrics, qr/^labor_server_health_checks_total\{upstream="u",server="\Q${\$t->expand('%%ADDR_A%%')}\E",result="fail"\} [1-9]/m, 'so do the metrics';

# A reload in the meantime knows it, and costs nobody a request (T09).
$t->reload;
$seen = asked(count => 60);
is $seen->{A} // 0, 0, 'unhealthy over a reload';
is $seen->{B}, 60, 'no request lost';
my $before = server('u', 'A')->{health_checks}{checks};
eventually { server('u', 'A')->{health_checks}{checks} > $before + 2 } 'the new workers go on probing';

$t->set(A => 'fail=0');
eventually { state_of('u', 'A') eq 'up' } 'it recovers by its checks';
eventually { asked()->{A} } 'and is used again, though requests had failed there';
eventually { grep { /^check_passed/ } events('u', 'A') } 'the event says so';
like $t->error_log, qr/\[notice\].*\Q${\$t->expand('%%ADDR_A%%')}\E of upstream "u" is healthy/, 'and the log' if $t->error_log =~ /\[notice\]/;

# One prober over all workers: four would send four times as many (O27).
$t->reset('B');
my $count = server('u', 'B')->{health_checks}{checks};
eventually { server('u', 'B')->{health_checks}{checks} >= $count + 12 } 'probes go on';
my $sent = $t->stats('B')->{requests};
my $booked = server('u', 'B')->{health_checks}{checks} - $count;
ok $sent <= $booked + 3, "one probe a turn: $sent sent, $booked booked";
ok $t->stats('B')->{connections} <= 4, 'connections are kept' or diag $t->stats('B')->{connections};
# It dies, whoever it was: others take over.
for my $worker ($t->workers) {
    $before = server('u', 'B')->{health_checks}{checks};
    ok $t->kill_worker($worker), 'a worker is killed';
    eventually { server('u', 'B')->{health_checks}{checks} >= $before + 2 } '… and probes go on', 10;
}

# It hangs: likewise, and what it finds when it wakes up counts for nothing.
for my $worker ($t->workers) {
    $before = server('u', 'B')->{health_checks}{checks};
    kill STOP => $worker;
    # The status may be asked of the one that stands still; then it is asked again.
    eventually { my $b = server('u', 'B'); $b && $b->{health_checks}{checks} >= $before + 2 } 'a worker hangs, and probes go on';
    kill CONT => $worker;
}
is server('u', 'B')->{health_checks}{unhealthy}, 0, 'nobody was blamed';

# All workers stand still for longer than any timeout: that is not the servers' fault (O28).
my @workers = $t->workers;
for (1 .. 3) {
    kill STOP => @workers;
    select undef, undef, undef, 0.9;    # the time itself is what is tested
    kill CONT => @workers;
    $before = server('u', 'B')->{health_checks}{checks};
    eventually { server('u', 'B')->{health_checks}{checks} > $before } 'probes go on after a stop';
}
is server('u', 'B')->{health_checks}{unhealthy}, 0, 'and nobody was blamed for it';

# The checks are wrong, the servers are well: everybody is served, and it is told (T07).
eventually { state_of('away', 'A') eq 'up' && state_of('away', 'B') eq 'up' } 'both well';
ok !$t->status->{upstreams}{away}{labor}{fail_open}, 'nothing to tell';
spill($t->dir . '/sick1', '');
eventually { state_of('away', 'A') eq 'unhealthy' && state_of('away', 'B') eq 'unhealthy' } 'all are unhealthy';
my @bad = grep { !/^[AB]$/ } keys %{ asked(count => 60, path => '/away') };
is scalar @bad, 0, 'all requests are served all the same' or diag explain \@bad;
ok $t->status->{upstreams}{away}{labor}{fail_open}, 'and the status says why';
my $api = Labor::Api->new($t);
is +($api->patch('/upstreams/away/servers/0', { state => 'down' }))[0], 200, 'one is taken down';
$seen = asked(path => '/away');
is $seen->{B}, 40, 'which is obeyed, whatever is left' or diag explain $seen;
$api->patch('/upstreams/away/servers/0', { state => 'up' });
unlink $t->dir . '/sick1';
eventually { state_of('away', 'A') eq 'up' && state_of('away', 'B') eq 'up' } 'well again, without anybody doing anything';

# Backups come before that.
eventually { state_of('back', 'A') eq 'up' } 'a primary';
spill($t->dir . '/sick2', '');
eventually { state_of('back', 'A') eq 'unhealthy' && state_of('back', 'B') eq 'unhealthy' } 'and its backup are unhealthy';
is asked(path => '/back')->{A}, 40, 'the primary is the least bad';
unlink $t->dir . '/sick2';
eventually { state_of('back', 'B') eq 'up' && state_of('back', 'A') eq 'up' } 'both are back';

$t->done;
