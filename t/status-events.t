# waits
# What happened, in the words of the status: lowered, out, recovered, slower, reload, another weight, down, added, removed; since
# when a server is in its state; and that the score is the sum of its factors (O21). Events stay over reloads.
use strict;
use warnings;
use Labor::Schema;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
$t->model(A => 'service=const:5ms', B => 'service=const:20ms', C => 'service=const:5ms');
sub conf {
    my (%with) = @_;
    my ($a, $b, $c) = map { $with{$_} // '' } qw(A B C);
    my $third = $with{third} ? "server %%ADDR_C%% $c;" : '';
    return <<"EOC";
    upstream u { zone u 256k; labor; server %%ADDR_A%% max_fails=0 $a; server %%ADDR_B%% max_fails=1 fail_timeout=2s $b; $third }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC
}
my $schema = Labor::Schema->new('docs/status.schema.json');
my %address = map { $_ => $t->expand("%%ADDR_$_%%") } qw(A B C);
sub peer { my ($name) = @_; return (grep { $_->{server} eq $address{$name} } $t->peers('u'))[0] || {} }
# Events with this reason, of this server if one is named.
sub events {
    my ($reason, $server) = @_;
    my $status = $t->status or return;
    return grep { $_->{reason} eq $reason && (!$server || ($_->{server} // '') eq $address{$server}) } @{ $status->{upstreams}{u}{labor}{events} };
}
# Requests one after the other until the condition holds.
sub until_so (&$) { my ($condition, $name) = @_; eventually { $t->get('/'); $condition->() } $name }

$t->conf(conf())->run;
ok wait_for { defined peer('A')->{state_since} }, 'somebody looks after the states';
is_deeply $t->status->{upstreams}{u}{labor}{events}, [], 'nothing has happened at the start';
$t->load(rate => 100, requests => 200);

# O21: why a server stands as it does.
for my $peer ($t->peers('u')) {
    my $sum = 0;
    $sum += $_ for values %{ $peer->{factors} };
    ok abs($sum - $peer->{score}) < 1e-3, 'the score is the sum of its factors' or diag explain $peer;
}

# A fails, and is well again.
$t->set(A => 'fail=1');
until_so { peer('A')->{state} eq 'lowered' } 'A is lowered';
my $event;
until_so { ($event) = events('lowered', 'A') } 'which is told';
like $event->{detail}, qr/^\w+ failures, level 0\.\d\d$|^\w+ failures, level 1\.00$/, 'with its kind and how bad it is';
like $event->{time}, qr/^20/, 'and when';
until_so { my $since = peer('A')->{state_since}; defined $since && $since >= 1 } 'the state has its time';
$t->set(A => 'fail=0');
until_so { events('recovered', 'A') } 'A has recovered';

# B is gone: max_fails takes it out, and lets it in again.
$t->close('B');
$t->close('A');
until_so { events('unavail', 'B') } 'B is taken out';
$t->open($_) for qw(A B);
until_so { events('recovered', 'B') } 'and let in again';

# Slower.
$t->set(A => 'service=const:200ms');
until_so { ($event) = events('slower', 'A') } 'A became slower';
my %us = ("\x{b5}s" => 1, ms => 1e3, s => 1e6);
my ($fast, $slow) = map { /^([\d.]+) (\S+)$/ ? $1 * $us{$2} : diag "no time: $_" } split / \x{2192} /, $event->{detail};
# As written, with one decimal.
cmp_ok $slow, '>=', 1.49 * $fast, 'by half or more, with figures that say so' or diag explain $event;

# Reloads: another weight, a server more, one that is down, one that is gone.
$t->conf(conf(A => 'weight=5', third => 1))->reload;
eventually { ($event) = events('weight', 'A') } 'another weight';
is $event->{detail}, 'weight 5, was 1 (configuration)', 'which, and who said so';
eventually { events('added', 'C') } 'a server came';
eventually { ($event) = events('reload') } 'there was a reload';
is $event->{server}, undef, 'which is about no server';
ok events('slower', 'A'), 'what was before it is still told';
$t->conf(conf(A => 'weight=5', third => 1, C => 'down'))->reload;
eventually { events('down', 'C') } 'it is down';
eventually { peer('C')->{state} eq 'down' } 'and shown as such';
$t->conf(conf(A => 'weight=5'))->reload;
eventually { events('removed', 'C') } 'a server went';

my $status = $t->status;
is_deeply [$schema->errors($status)], [], 'as the schema describes it';
my @ages = map { $_->{seconds_ago} } @{ $status->{upstreams}{u}{labor}{events} };
is_deeply \@ages, [sort { $a <=> $b } @ages], 'the newest first';
my ($metrics) = $t->http(GET => '/x.prom', port => $t->port('_STATUS'))->body =~ /^labor_server_ejections_total\{[^}]*$address{B}"\} (\d+)$/m;
cmp_ok $metrics, '>=', 1, 'ejections are counted';

$t->done;
