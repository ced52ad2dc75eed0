# A worker is killed at any moment with requests in flight: nothing stays locked, no request stays counted, the others serve on.
# fails with: a worker that does not take over what dead ones had counted (not tried by a switch: there is none).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
# The master says so when it notices the death; kill_worker() knows of it.
$t->model(A => 'service=const:40ms', B => 'service=const:40ms', C => 'service=const:20s', D => 'service=const:40ms');
$t->conf(<<'EOC')->run;
    upstream plain { labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream zoned { zone z 128k; labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream long { labor; server %%ADDR_C%%; }
    upstream full { labor; server %%ADDR_D%% max_conns=40; server %%DEAD%% backup; }
    server {
        listen %%LISTEN%%;
        location /plain { proxy_pass http://plain; }
        location /zoned { proxy_pass http://zoned; }
        location /long { proxy_pass http://long; }
        location /full { proxy_pass http://full; }
    }
EOC

# Requests in flight and connections, as the status has them, of an upstream.
sub counted {
    my ($upstream) = @_;
    my $status = $t->status or return '-';
    my $sum = 0;
    $sum += $_->{in_flight} + $_->{connections} for $t->peers($upstream, $status);
    return $sum;
}
sub all_workers { my @workers = $t->workers; return @workers }

# Long requests in flight in all workers; those of the killed one must be gone from the count, the others must not.
my @held = map { my $c = $t->connection; $c->write(Labor::HTTP::format('/long')); $c } 1 .. 12;
ok wait_for { $t->stats('C')->{in_flight} == 12 }, 'twelve requests under way';
is counted('long'), 24, 'all are counted, in flight and connected' or diag explain $t->status->{upstreams}{long};
for my $pid (all_workers()) { ok $t->kill_worker($pid), 'killed, and another took its place' }
eventually { counted('long') eq '0' } 'all workers killed: no request is counted any more';
$_->close for @held;

# Under load, again and again.
for my $upstream ('plain', 'zoned', 'full') {
    my $kills = 0;
    my $report = $t->load(
        path => "/$upstream", concurrency => 10, requests => 1200, timeout => '5s',
        meanwhile => sub {
            my ($running) = @_;
            while ($kills < 6 && $running->()) {
                my @workers = all_workers();
                $kills++ if $t->kill_worker($workers[$kills % @workers]);
            }
        },
    );
    is $kills, 6, "$upstream: six workers killed under load";
    my $good = $report->{statuses}{200} // 0;
    cmp_ok $good, '>', 1000, "$upstream: the others go on: $good of 1200";
    is $report->{errors}{timeout}, 0, "$upstream: nothing is stuck";
    eventually { counted($upstream) eq '0' } "$upstream: no request is counted for ever" or diag counted($upstream);
    # More at once than the killed workers left room for, if their connections were still counted.
    my $after = $t->load(path => "/$upstream", concurrency => 10, requests => 100);
    is $after->{statuses}{200}, 100, "$upstream: serves as before" or diag explain $after;
}

$t->done;
