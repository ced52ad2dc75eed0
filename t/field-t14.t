# T14: stickiness and load awareness together. One key has half of all requests: its home stays under the bound, the other keys
# stay at home, and afterwards the key is at home again.
# fails with: bound=100 (the home has more than half of all), and with the bound for heavy keys as for all (others lose their home).
use strict;
use warnings;
use Labor::Test;

# A worker must have seen some requests of a key to know that it is heavy: not when it lives for half a second.
my $t = Labor::Test->new(workers => 2, reload => 0);
my @names = qw(A B C);
$t->model(map { $_ => 'service=const:150ms' } @names);
$t->conf(<<'EOC')->run;
    split_clients $request_id $hot { 50% hot; * ""; }
    map $request_id $cold { ~^(?<two>..) $two; }
    map $hot $mixed { "" $cold; default hot; }
    log_format k '$uri $mixed $labor_reason $labor_inflight';
    access_log %%DIR%%/access.log k;
    upstream u {
        labor;
        labor_hash $key bound=1.25 slack=10;
        server %%ADDR_A%%;
        server %%ADDR_B%%;
        server %%ADDR_C%%;
    }
    map $uri $key { /hot hot; default $mixed; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

my $home = $t->get('/hot')->header('X-Server');
$t->load(path => '/warm', rate => 400, requests => 1600);
$t->reset($_) for @names;
my $report = $t->load(path => '/mixed', rate => 400, requests => 2400);
is $report->{statuses}{200}, 2400, 'all answered' or diag explain $report;

# Equal service times: the part of the requests is the part of what is in flight. A bound of 1.25 is 0.417 of all at most, what it
# rounds up to and a burst at the start included 0.45. Unbounded it would be 0.67.
my $share = $report->{servers}{$home}{share};
cmp_ok $share, '<', 0.45, "the home of the key with half of all stays under its bound ($share)";
cmp_ok $share, '>', 0.28, 'and is used';

my %others;
for (grep { m{^/mixed} } $t->lines('access.log', 4001)) {
    my (undef, $key, $reason) = split / /;
    $others{$reason}++ if $key ne 'hot';
}
my $count = 0;
$count += $_ for values %others;
my $kept = ($others{hash} // 0) / $count;
cmp_ok $count, '>', 1000, 'other keys had requests';
cmp_ok $kept, '>', 0.95, "other keys stay at home ($kept)" or diag explain \%others;

# Alone again, the key is at home.
is_deeply $t->servers(20, '/hot'), { $home => 20 }, 'afterwards the key is back at home';

# Counted for people: kept and passed on.
my %picks;
for my $peer ($t->peers('u')) {
    $picks{$_} += $peer->{labor}{picks}{$_} for keys %{ $peer->{labor}{picks} };
}
cmp_ok $picks{hash}, '>', 2000, 'status counts what stayed' or diag explain \%picks;
cmp_ok $picks{overflow}, '>', 100, 'and what was passed on';
$t->done;
