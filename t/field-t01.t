# T01: a server that fails at once must not look like the fastest one. The answers are passed on as they are, so nginx itself
# counts every attempt as a success.
# fails with: policy=least_conn (A has most of the requests).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(
    (map { ("A$_" => '', "B$_" => '', "C$_" => '') } 1, 2),
);
$t->set(A1 => 'fail=1:500,fast_fail', B1 => 'service=const:30ms', C1 => 'service=const:30ms');
$t->set(A2 => 'service=const:1ms', B2 => 'service=const:50ms', C2 => 'service=const:50ms');
$t->conf(<<'EOC')->run;
    upstream u1 { labor; server %%ADDR_A1%%; server %%ADDR_B1%%; server %%ADDR_C1%%; }
    upstream u2 { labor; server %%ADDR_A2%%; server %%ADDR_B2%%; server %%ADDR_C2%%; }
    server {
        listen %%LISTEN%%;
        location /1 { proxy_pass http://u1; }
        location /2 { proxy_pass http://u2; }
    }
EOC

sub errors { return scalar grep { $_->{status} !~ /^2/ } @_ }
sub of { my ($server, @requests) = @_; return scalar grep { $_->{server} eq $server } @requests }

# As reported: A answers 500 at once, B and C 200 after 30 ms.
my @requests = $t->requests(path => '/1', concurrency => 8, requests => 600);
is scalar @requests, 600, 'all requests were made';
my @after = @requests[50 .. $#requests];
cmp_ok of(A1 => @after) / @after, '<', 0.05, 'A fails at once: share below 5 % after the first 50 requests'
    or diag of(A1 => @requests) . ' of 600';
cmp_ok errors(@after) / @after, '<', 0.05, 'and so are the errors';

# A sinkhole that was the best server by far until then.
my @before = $t->requests(path => '/2', rate => 100, requests => 200);
cmp_ok of(A2 => @before), '>', 120, 'A is the fastest: most of 200 requests' or diag of(A2 => @before);
is errors(@before), 0, 'no error yet';
$t->set(A2 => 'fail=1:500,fast_fail');
my @turned = $t->requests(path => '/2', rate => 100, requests => 900);
is scalar @turned, 900, 'all requests were made';
cmp_ok errors(@turned), '<', 9, 'A turned to instant 500s: less than 1 % errors from then on' or diag errors(@turned);

# Lowered, not removed.
for my $pair (['/1', 'A1'], ['/2', 'A2']) {
    my ($path, $server) = @$pair;
    my $seen = $t->stats($server)->{requests};
    eventually {
        $t->load(path => $path, rate => 100, requests => 50);
        $t->stats($server)->{requests} > $seen;
    } "$server: still tried now and then", 20;
}

$t->done;
