# What the status counts: answers by class, bytes, times, clients that left (499 is none of the classes), time out by max_fails. It
# answers when every server is down, and no counter ever goes backwards, over reloads and a killed worker.
use strict;
use warnings;
use Labor::Schema;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
$t->model(A => 'service=const:20ms', B => 'service=const:20ms', C => 'service=const:300ms');
my $conf = <<'EOC';
    upstream a { zone a 128k; labor; server %%ADDR_A%% max_fails=0; }
    upstream b { zone b 128k; labor; server %%ADDR_B%% max_fails=1 fail_timeout=100s; server %%ADDR_C%% backup; }
    upstream h { labor header; server %%ADDR_A%%; }
    upstream slow { labor; server %%ADDR_C%%; }
    upstream gone { zone gone 128k; labor; server %%DEAD%% max_fails=1 fail_timeout=100s; server %%DEAD2%% max_fails=1 fail_timeout=100s; }
    server {
        listen %%LISTEN%%;
        location /a { proxy_pass http://a; }
        location /b { proxy_pass http://b; }
        location /h { proxy_pass http://h; }
        location /slow { proxy_pass http://slow; }
        location /gone { proxy_pass http://gone; }
    }
EOC
$t->conf($conf)->run;
my $schema = Labor::Schema->new('docs/status.schema.json');
sub one { my ($upstream) = @_; return ($t->peers($upstream))[0] }

# Classes, bytes, times.
for my $status (200, 200, 204, 301, 404, 500) {
    $t->set(A => "status=$status");
    $t->get('/a');
}
my $a = one('a');
is_deeply $a->{responses}, { '1xx' => 0, '2xx' => 3, '3xx' => 1, '4xx' => 1, '5xx' => 1, total => 6 }, 'answers by class'
    or diag explain $a;
is $a->{requests}, 6, 'requests';
cmp_ok $a->{sent}, '>', 6 * 20, 'bytes sent';
cmp_ok $a->{received}, '>', 6 * 30, 'bytes received';
for my $time (qw(header_time response_time)) {
    like $a->{$time}, qr/^\d+$/, "$time is whole";
    cmp_ok $a->{$time}, '>=', 20, "$time: not less than the server takes";
}
my $sum = 0;
$sum += $_ for @{ $a->{histogram}{counts} };
is $sum, 6, 'the histogram has every answer';
is scalar @{ $a->{histogram}{bounds} }, scalar @{ $a->{histogram}{counts} }, 'a bound for each of its counts';
cmp_ok $a->{p50_us}, '>=', 18_000, 'median';
cmp_ok $a->{p99_us}, '>=', $a->{p50_us}, 'and tail';
$t->set(A => 'status=200');
$t->get('/h');
is one('h')->{responses}{total}, 1, 'the same server in another upstream counts by itself';
ok one('h')->{p50_us}, 'times to the header where that is measured';

# A client that leaves: 499 is no answer.
my $client = $t->connection;
$client->write(Labor::HTTP::format('/slow'));
wait_for { one('slow')->{in_flight} };
$client->close;
eventually { one('slow')->{aborts} == 1 } 'a client that left is counted as such';
is one('slow')->{responses}{total}, 0, 'and as no answer';
is one('slow')->{fails}, 0, 'nor as a failure';

# max_fails=0 is never out; max_fails=1 is, and the time runs.
$t->close('A');
$t->close('B');
$t->get($_) for '/a', '/a', '/b';
is one('a')->{labor}{state}, 'lowered', 'max_fails=0: lowered, as the decisions go';
is $t->status->{upstreams}{a}{peers}[0]{state}, 'up', 'and up, as nginx has it';
is $t->status->{upstreams}{b}{peers}[0]{state}, 'unavail', 'max_fails=1: taken out';
eventually { my $b = one('b'); $b->{unavail} == 1 && $b->{downtime} > 0 && $b->{downstart} } 'counted, with the time it takes';
my $before = one('b')->{downtime};
eventually { one('b')->{downtime} > $before } 'which goes on';

# All servers down: the status is still there.
is $t->get('/gone')->status, 502, 'all servers down';
my $answer = $t->http(GET => '/', port => $t->port('_STATUS'));
is $answer->status, 200, 'the status answers';
is $t->http(GET => "/x.$_", port => $t->port('_STATUS'))->status, 200, "as $_ too" for qw(prom html);
is_deeply [map { $_->{state} } @{ $t->status->{upstreams}{gone}{peers} }], [qw(unavail unavail)], 'and says so';

# Counters never go backwards, whoever answers.
my (%last, @back);
sub look {
    my $status = $t->status or return;
    for my $upstream (sort keys %{ $status->{upstreams} }) {
        for my $peer ($t->peers($upstream, $status)) {
            my %now = (
                (map { $_ => $peer->{$_} } qw(requests sent received fails unavail downtime aborts)),
                (map { ("responses $_" => $peer->{responses}{$_}) } keys %{ $peer->{responses} }),
                (map { ("picks $_" => $peer->{picks}{$_}) } keys %{ $peer->{picks} }),
            );
            for (sort keys %now) {
                my $what = "$upstream $peer->{server} $_";
                push @back, "$what: $last{$what} to $now{$_}" if $now{$_} < ($last{$what} // 0);
                $last{$what} = $now{$_};
            }
        }
    }
    return 1;
}
$t->open('A');
look();
for my $round (1 .. 6) {
    $t->reload;
    $t->get('/a') for 1 .. 5;
    look() for 1 .. 3;
    if ($round == 3) {
        my ($worker) = $t->workers;
        $t->kill_worker($worker);
        wait_for { !grep { $_ == $worker } $t->workers };
    }
}
# Another size of the memory: what was counted is copied.
$t->conf("labor_zone 4m;\n$conf")->reload;
$t->get('/a') for 1 .. 5;
ok look(), 'after a change of the size';
is_deeply \@back, [], 'no counter went backwards';
cmp_ok one('a')->{requests}, '>=', 40, 'and they went on';
is_deeply [$schema->errors($t->status)], [], 'as the schema has it';

$t->done;
