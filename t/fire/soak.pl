# Chaos in the servers, at full speed, for minutes: every way in which an answer can go wrong, changed every second.
#
#     SOAK=10 perl -It/lib t/fire/soak.pl      (minutes; may be a fraction)
#
# One server is always well. Prints what was counted. nginx may answer with an error where a server gave it no choice; nothing
# may hang, die, stay counted, or grow.

use strict;
use warnings;

use Labor::Fire qw(footprint in_flight signals);
use Labor::Test;
use Time::HiRes qw(time);

my $minutes = $ENV{SOAK} || 10;
alarm int(60 * $minutes) + 300;
# The whole run takes one life of the model servers, which is ten minutes unless one says so.
$ENV{LABOR_LIFETIME} = int(60 * $minutes) + 300 . 's';
my $t = Labor::Test->new(reload => 0);
my @chaotic = map { "C$_" } 1 .. 4;
$t->model(map { $_ => 'service=exp:2ms' } 'A', @chaotic);

# Bytes that no well-behaved server sends. One answer a connection.
sub answer {
    my ($text) = @_;
    return sub {
        my ($socket) = @_;
        my $request = "";
        1 while $request !~ m{\r\n\r\n} && sysread $socket, $request, 65536, length $request;
        syswrite $socket, $text;
        return;
    };
}
my $OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
my %raw = (
    half_header => "HTTP/1.1 200 OK\r\nContent-Len",
    half_body => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf",
    garbage => "\x00\xff\x16\x03\x01 no answer at all\r\n\r\n",
    hundred => "HTTP/1.1 100 Continue\r\n\r\n$OK",
    hints => "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n" x 3 . $OK,
    trailers => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2\r\nok\r\n0\r\nX-A: b\r\n\r\n",
    bad_chunk => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n",
    half_chunk => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nok",
    endless_header => 'HTTP/1.1 200 OK' . "\r\nX-Long: " . 'x' x 65536,
    many_headers => "HTTP/1.1 200 OK\r\n" . join('', map { "X-H$_: v\r\n" } 1 .. 3000) . "\r\n",
    two_lengths => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    bad_status => "HTTP/1.1 99999 Odd\r\n\r\n",
    more_than_said => "${OK}and more",
    empty => '',
);
my @odd = sort keys %raw;
$t->raw(map { $_ => answer($raw{$_}) } @odd);
my $chaos = join ' ', map { "server %%ADDR_$_%%;" } @chaotic;
my $odd = join ' ', map { "server %%ADDR_$_%%;" } @odd;
my %upstream = (
    plain => "labor; labor_check interval=500ms timeout=400ms; server %%ADDR_A%%; $chaos keepalive 16;",
    zoned => "zone zoned 256k; labor header; server %%ADDR_A%%; $chaos",
    odd => "labor; labor_check interval=200ms type=tcp; labor_breaker; server %%ADDR_A%%; $odd",
    weighted => "labor policy=weighted; server %%ADDR_A%%; $chaos keepalive 4;",
);
my $upstreams = join "\n", map { "upstream $_ { $upstream{$_} }" } sort keys %upstream;
my $locations = join "\n", map { "location /$_ { proxy_pass http://$_; }" } sort keys %upstream;
$t->conf(<<"EOC", main => 'worker_rlimit_nofile 8192;')->run;
    $upstreams
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_connect_timeout 500ms;
    proxy_read_timeout 1s;
    server {
        listen %%LISTEN%%;
        $locations
    }
EOC

# What a chaotic server does for a second or two.
my @moods = (
    'service=exp:2ms', 'service=exp:100ms', 'service=pareto:5ms:1.5', 'reset=header', 'reset=body,body=100k', 'garbage',
    'fail=0.5:503', 'fail=1:500,fast_fail', 'hang', 'close_idle=1:late', 'close_idle=2', 'accept_delay=300ms',
    'body=300k,chunk_delay=50ms', 'k=1,service=const:20ms', 'status=404', 'first=5:1s',
);
my $CALM = 'service=exp:2ms,reset=none,garbage=off,fail=0,fast_fail=off,hang=off,close_idle=off,accept_delay=0,body=16,chunk_delay=0,k=off,status=200,first=0:0';
my ($moods, $end) = (0, time + 60 * $minutes);
sub upset {
    my ($running) = @_;
    while ($running->()) {
        my $server = $chaotic[rand @chaotic];
        my $mood = rand;
        if ($mood < 0.1) { $t->close($server) }
        elsif ($mood < 0.15) { $t->block($server) }
        else {
            $t->open($server);
            $t->set($server => $CALM);
            $t->set($server => $moods[rand @moods]);
        }
        $moods++;
        wait_for { !$running->() } 0.25;
    }
}

my (%sum, %status, $first);
my @paths = map { "/$_" } sort keys %upstream;
my $round = 0;
while (time < $end || !$round) {
    my $left = $end - time;
    my $seconds = $left < 10 ? int($left) + 1 : 10;
    my $report = $t->load(path => $paths[$round++ % @paths], concurrency => 32, duration => "${seconds}s", timeout => '30s', meanwhile => \&upset);
    $sum{$_} += $report->{errors}{$_} for keys %{ $report->{errors} };
    $sum{count} += $report->{count};
    $status{$_} += $report->{statuses}{$_} for keys %{ $report->{statuses} };
    # Once every upstream has been used.
    $first //= footprint($t) if $round >= @paths;
}
my $last = footprint($t);
$first //= $last;
note "statuses: ", join(', ', map { "$_: $status{$_}" } sort keys %status), '; broken: ',
    join(', ', map { "$_: $sum{$_}" } grep { $_ ne 'count' && $sum{$_} } sort keys %sum);
cmp_ok $sum{count}, '>', 1000, "$sum{count} requests in $minutes minutes, $moods changes of mood";
is $sum{timeout} // 0, 0, 'none hung for 30 s';
is $sum{connect} // 0, 0, 'nginx took every connection';
cmp_ok $status{200} // 0, '>', $sum{count} / 2, 'most were answered all the same: ' . ($status{200} // 0);
is scalar signals($t), 0, 'no process died';
for my $name (sort keys %upstream) { eventually { in_flight($t, $name) == 0 } "$name: nothing is counted in flight" }
# Each worker keeps buffers for its busiest moment; growth beyond that is a leak.
cmp_ok $last->{workers}, '<=', $first->{workers} * 1.5 + 4096, "memory of the workers: $first->{workers} kB, then $last->{workers} kB";
is $last->{files}, $first->{files}, "files of the master: $first->{files}, then $last->{files}";
$t->open($_)->set($_ => $CALM) for @chaotic;
my $after = $t->load(path => '/plain', concurrency => 8, requests => 500);
is $after->{statuses}{200}, 500, 'serves when calm returns' or diag explain $after;
$t->done;
