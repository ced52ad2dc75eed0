# T05: a changed list of servers or a reload must not throw away what is known.
# fails with: policy=round_robin (the first requests are spread evenly).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => 'service=const:5ms', B => 'service=const:80ms', C => 'service=const:40ms');

sub conf {
    my ($name, @servers) = @_;
    my $servers = join ' ', map { "server %%ADDR_$_%%;" } @servers;
    return <<"EOC";
    upstream $name { labor; $servers }
    server { listen %%LISTEN%%; location / { proxy_pass http://$name; } }
EOC
}

# Server => its entry of the status.
my %name = map { $t->expand("%%ADDR_$_%%") => $_ } qw(A B C);
sub known {
    my ($upstream) = @_;
    return { map { $name{ $_->{server} } => $_ } $t->peers($upstream) };
}
sub near { my ($x, $y) = @_; return $x && $y && abs($x / $y - 1) < 0.1 }

# The first requests after a change: 50, one after the other. Nobody has time to learn anew.
sub favours_a {
    my ($what) = @_;
    my $seen = $t->servers(50);
    cmp_ok $seen->{A} // 0, '>', 40, "$what: the first 50 requests favour A" or diag explain $seen;
    ok !grep({ /status/ } keys %$seen), "$what: no error" or diag explain $seen;
}

$t->conf(conf('u', 'A', 'B'))->run;
$t->load(rate => 100, requests => 300);
my $before = known('u');
ok near($before->{A}{latency_us}, 5_000) || $before->{A}{latency_us} < 8_000, 'A is learned';
cmp_ok $before->{B}{latency_us}, '>', 60_000, 'B is learned';

# A server is added.
$t->conf(conf('u', 'A', 'B', 'C'))->reload;
my $after = known('u');
for my $server ('A', 'B') {
    ok near($after->{$server}{latency_us}, $before->{$server}{latency_us}), "C added: $server is known as before"
        or diag "$before->{$server}{latency_us} $after->{$server}{latency_us}";
}
my $c = $after->{C}{latency_us};
ok $c > $after->{A}{latency_us} && $c < $after->{B}{latency_us}, 'C starts between A and B, near the group' or diag $c;
favours_a('C added');

# The order changes, and what was learned of C is kept too.
$t->load(rate => 50, requests => 50);
$before = known('u');
$t->conf(conf('u', 'C', 'B', 'A'))->reload;
$after = known('u');
for my $server ('A', 'B', 'C') {
    ok near($after->{$server}{latency_us}, $before->{$server}{latency_us}), "reordered: $server is known as before"
        or diag "$before->{$server}{latency_us} $after->{$server}{latency_us}";
}
favours_a('reordered');

# Another name is another upstream, which learns anew; the old one is remembered.
$t->conf(conf('v', 'A', 'B'))->reload;
my $report = $t->load(rate => 100, requests => 200);
is $report->{statuses}{200}, 200, 'renamed: all answered';
cmp_ok $report->{servers}{A}{share}, '>', 0.6, 'renamed: learned anew';
$t->conf(conf('u', 'B', 'A'))->reload;
favours_a('the old name again');

# Nothing changes but the memory.
$t->conf("labor_zone 2m;\n" . conf('u', 'B', 'A'))->reload;
favours_a('another size of the zone');

$t->done;
