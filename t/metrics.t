# labor_status for Prometheus: the format read strictly, values as in JSON, promtool where there is one.
use strict;
use warnings;
use Labor::Metrics;
use Labor::Prometheus;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => 'service=const:5ms', B => 'service=const:20ms,fail=0.5');
$t->conf(<<'EOC')->run;
    upstream u {
        zone u_zone 256k;
        labor;
        server %%ADDR_A%% weight=3 max_conns=50;
        server %%ADDR_A%%;
        server %%ADDR_B%% max_fails=0;
        server %%DEAD%% max_fails=1 fail_timeout=100s;
        server %%DEAD2%% down;
    }
    upstream other { labor; server %%ADDR_A%%; }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; }
        location = /word { labor_status prometheus; }
        location = /metrics.prom { labor_status; }
        location = /word.json { labor_status prometheus; }
    }
EOC
$t->load(rate => 200, requests => 300);

my $answer = $t->get('/word');
is $answer->header('Content-Type'), 'text/plain; version=0.0.4; charset=utf-8', 'the type that scrapers know';
is $answer->header('Cache-Control'), 'no-store', 'never to be cached';
is $t->get('/metrics.prom')->header('Content-Type'), $answer->header('Content-Type'), 'by the end of the path';
is $t->get('/word.json')->header('Content-Type'), 'application/json', 'which decides before the word';
is $t->http(POST => '/word', body => 'x')->status, 405, 'GET and HEAD only';
is length $t->http(HEAD => '/word')->body, 0, 'HEAD: no body';

my $status = $t->status;
my ($metrics, $wrong) = Labor::Metrics::parse($t->get('/word')->body);
is_deeply $wrong, [], 'the format is kept' or diag join "\n", @$wrong;
my ($a) = $t->peers('u', $status);
my @labels = (upstream => 'u', server => $a->{server});
sub value { return Labor::Metrics::value($metrics, @_) }

# Of the two equal servers the first has no number.
my $two = value(labor_server_requests_total => @labels);
my $second = value(labor_server_requests_total => @labels, ordinal => 1);
ok defined $second, 'the second of equal servers is a series of its own';
is $two - $second, $a->{requests}, 'requests as in JSON';
my ($all, $peers) = (value('labor_server_requests_total', upstream => 'u'), 0);
$peers += $_->{requests} for $t->peers('u', $status);
is $all, $peers, 'and so is their sum';
is value('labor_server_selections_total', upstream => 'u'), $all, 'every attempt has a reason';
is value('labor_server_weight', @labels, ordinal => 1), 1, 'weight';
is value('labor_server_connections_limit', @labels), 50, 'a limit where there is one';
my ($b) = grep { $_->{server} eq $t->expand('%%ADDR_B%%') } $t->peers('u', $status);
is value('labor_server_failures_total', server => $b->{server}), $b->{failures}{total}, 'failures';
is value('labor_server_responses_total', server => $b->{server}, code => '5xx'), $b->{responses}{'5xx'}, 'answers by class';
is value('labor_server_received_bytes_total', server => $b->{server}), $b->{received}, 'bytes';
is value('labor_server_response_duration_seconds_count', @labels), value('labor_server_responses_total', @labels, code => '2xx'),
    'every answer has its time';
my $mean = value('labor_server_response_duration_seconds_sum', @labels) / value('labor_server_response_duration_seconds_count', @labels);
ok $mean > 0.005 && $mean < 0.1, 'in seconds' or diag $mean;
for my $state (qw(up unavail down)) {
    my @in = grep { $_->{state} eq $state } $t->peers('u', $status);
    is value('labor_upstream_servers', upstream => 'u', state => $state), scalar @in, "servers that are $state";
}
my @states = grep { $_->{labels}{server} eq $a->{server} && !$_->{labels}{ordinal} } @{ $metrics->{labor_server_state}{samples} };
is scalar(grep { $_->{value} && $_->{labels}{upstream} eq 'u' } @states), 1, 'a server is in one state';

SKIP: {
    skip 'promtool: ' . Labor::Prometheus::missing(), 1 if Labor::Prometheus::missing();
    my $said = Labor::Prometheus::check($t->dir, $t->get('/word')->body);
    is $said, '', 'promtool check metrics has nothing to say';
}

$t->done;
