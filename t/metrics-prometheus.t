# A real Prometheus scrapes labor_status, and every query of the Grafana dashboard is asked of it.
use strict;
use warnings;
use JSON::PP ();
use Labor::Metrics;
use Labor::Prometheus;
use Labor::Test;
use Labor::Util qw(slurp);

my $t = Labor::Test->new;
$t->model(A => 'service=const:5ms', B => 'service=const:20ms', F => 'fail=1');
$t->conf(<<'EOC')->run;
    upstream "q\"u\\o<te>" { labor; server %%ADDR_A%%; }
    upstream u { zone u 256k; labor; server %%ADDR_A%%; server %%ADDR_A%%; server %%ADDR_B%% max_conns=9; server %%DEAD%% down; }
    upstream f { labor; server %%ADDR_F%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } location /f { proxy_pass http://f; } location = /metrics { labor_status prometheus; } }
EOC
$t->load(rate => 100, requests => 100);
my ($metrics) = Labor::Metrics::parse($t->get('/metrics')->body);

# Every name in the dashboard is a metric, and every metric's labels that it uses are there.
my $dashboard = JSON::PP::decode_json(slurp('docs/grafana/labor.json'));
my @queries = map { map { $_->{expr} } @{ $_->{targets} } } @{ $dashboard->{panels} };
push @queries, map { $_->{expr} } @{ $dashboard->{annotations}{list} };
cmp_ok scalar @queries, '>', 10, 'the dashboard has queries';
for my $name (map { /\b(labor_\w+)/g } @queries, map { $_->{definition} // () } @{ $dashboard->{templating}{list} }) {
    my $family = $metrics->{$name} ? $name : $name =~ s/_(?:bucket|sum|count)$//r;
    ok $metrics->{$family}, "dashboard: $name is a metric";
}
my @placed = map { $_->{gridPos} } @{ $dashboard->{panels} };
ok !grep({ $_->{x} + $_->{w} > 24 } @placed), 'no panel is wider than the page';

SKIP: {
    skip 'Prometheus: ' . Labor::Prometheus::missing(), 1 if Labor::Prometheus::missing();
    my $prometheus = Labor::Prometheus->new($t->dir, ['127.0.0.1:' . $t->port . '/metrics'], '1s');
    eventually { my ($target) = $prometheus->targets; $target && $target->{health} eq 'up' } 'scraped', 60;
    my ($target) = $prometheus->targets;
    is $target->{lastError}, '', 'without an error';
    # Rates need two scrapes with something between.
    eventually {
        $t->get($_) for '/', '/f';
        my ($passed, $failed) = map { $prometheus->query("sum(rate($_\[1m]))") } 'labor_server_requests_total{upstream="u"}',
            'labor_server_failures_total{upstream="f"}';
        !grep { !$_ || !@$_ || $_->[0]{value} <= 0 } $passed, $failed;
    } 'requests per second are seen', 60;
    my ($requests) = map { $_->{value} } @{ $prometheus->query('sum(labor_server_requests_total{upstream="u"})') };
    cmp_ok $requests, '>=', 100, 'counters arrive';
    my $names = $prometheus->query('labor_server_weight{upstream!~"u|f"}');
    is $names->[0]{metric}{upstream}, 'q"u\\o<te>', 'a hostile name arrives as it is';
    my %empty = map { $_ => 1 } grep { /labor_configurations_total/ } @queries;    # no reload within the minute, perhaps
    for my $query (@queries) {
        my $asked = $query =~ s/\$__rate_interval/1m/gr =~ s/"\$\w+"/".*"/gr;
        my $answer = $prometheus->query($asked);
        ok $answer, "understood: $query" or next;
        ok scalar @$answer, 'and answered' unless $empty{$query};
    }
    ok $prometheus->stop, 'Prometheus ends when asked to';
}

$t->done;
