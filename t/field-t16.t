# T16: a change at run time that meets a reload, or the death of a worker, is not lost once it is answered.
# A hundred rounds of reload and change at the same time, each with a worker killed.
# waits

use strict;
use warnings;

use Labor::Api;
use Labor::Test;

my $t = Labor::Test->new(workers => 2, reload => 0);
$t->model(A => 'service=const:1ms', B => 'service=const:1ms');
mkdir $t->dir . '/state';
# By default the kernel wakes one worker for a connection; where that one is killed before it takes it, the connection waits for
# the next one to come, with every module. With accept_mutex workers look for themselves.
my $events = 'worker_connections 512; accept_mutex on; accept_mutex_delay 20ms;';
$t->conf(<<'EOC' . Labor::Api::server(), events => $events)->run;
    labor_state %%DIR%%/state/labor;
    upstream u { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC
my $api = Labor::Api->new($t);
my $server = '/upstreams/u/servers/127.0.0.1:' . $t->port('A');

my ($wrong, $refused, $answered) = (0, 0, 0);
for my $round (1 .. 100) {
    my $state = $round % 2 ? 'down' : 'up';
    my @workers = $t->workers;
    kill 'HUP', $t->nginx->pid;
    # The change races with the reload; where the worker that took it is the one that dies, it is asked again.
    my $status = 0;
    my $tried = wait_for { ($status) = $api->patch($server, { state => $state }); $status == 200 };
    $tried ? $answered++ : $refused++;
    my @now = $t->workers;
    $t->nginx->expect_death(@workers, @now);
    kill 'KILL', $now[$round % @now] if @now;
    # Whoever answers now, from before or after the reload.
    my $seen = wait_for { my ($s, $json) = $api->get($server); $s == 200 && $json->{state} };
    if (($seen // '') ne $state) {
        $wrong++;
        diag "round $round: '" . ($seen // 'no answer') . "' after '$state'";
    }
    my %servers;
    $servers{ $_->header('X-Server') // $_->status }++ for grep { $_ } map { $t->get('/') } 1 .. 3;
    if ($state eq 'down' && $servers{A}) {
        $wrong++;
        diag "round $round: a request to the server that is down";
    }
}
is $refused, 0, 'every change was answered';
is $answered, 100, 'a hundred rounds';
is $wrong, 0, 'and the state was as answered after every round';
# Nobody left to die: what was answered last is also what a restart finds.
wait_for { $t->workers >= 2 };
is [$api->patch($server, { state => 'down' })]->[0], 200, 'down at the end';
$t->stop;
$t->run;
is [$api->get($server)]->[1]{labor}{state}{source}, 'state_file', 'kept over a restart';
is_deeply $t->servers(6), { B => 6 }, 'and obeyed';
$t->done;
