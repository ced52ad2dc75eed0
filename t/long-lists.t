# A list too long to ask every server for every request: it is used as a whole, and each server as it stands.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
my @up      = map { "127.1.0.$_" } 1 .. 250;
my @more    = map { "127.1.1.$_" } 1 .. 50;
my @down    = map { "127.1.2.$_" } 1 .. 50;
my $servers = join "\n        ",
    (map { "server $_:%%PORT_back%%;" } @up, @more),
    (map { "server $_:%%PORT_back%% down;" } @down),
    # Nobody listens there.
    (map { "server 127.1.3.$_:%%PORT_dead%% max_fails=0;" } 1 .. 10);
$t->conf(<<"EOC")->run;
    upstream all { zone all 4m; labor; $servers }
    upstream turns { zone turns 4m; labor policy=round_robin; ${\join '', map { "server $_:%%PORT_back%%;" } @up, @more} }
    upstream nobody { zone nobody 4m; labor; ${\join '', map { "server 127.1.3.$_:%%PORT_dead%%;" } 1 .. 250, 1 .. 50} }
    server { listen *:%%PORT_back%%; return 200 \$server_addr; }
    server {
        listen %%LISTEN%%;
        location /all { proxy_pass http://all; proxy_next_upstream_tries 15; }
        location /turns { proxy_pass http://turns; }
        location /nobody { proxy_pass http://nobody; proxy_next_upstream_tries 4; }
    }
EOC

# Fresh, then learned: never an error, though ten servers refuse and fifty are down.
my (%seen, $bad);
for (1 .. 10) {
    for my $answer ($t->burst(100, '/all')) {
        if ($answer && $answer->status == 200) { $seen{ $answer->body }++ }
        else                                   { $bad++ }
    }
}
is $bad, undef, 'every request is answered';
is scalar(grep { !/^127\.1\.[01]\./ } keys %seen), 0, 'by nobody who is down or refuses';
cmp_ok scalar(keys %seen), '>=', 100, 'and not by a few only';

# One turn of each worker would be 300. Even 1000 picks at random would reach 289, give or take 3.
my %turns;
for (1 .. 10) { $turns{ $_->body }++ for $t->burst(100, '/turns') }
cmp_ok scalar(keys %turns), '>=', 260, 'fixed shares reach everybody';

my $answer = $t->get('/nobody');
is $answer->status, 502, 'and where nobody answers the request comes to its end';

my ($u) = $t->status->{upstreams}{all};
is scalar(@{ $u->{peers} }), 360, 'the status shows them all';
$t->done;
