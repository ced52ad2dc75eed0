# T07: nobody seems usable: the order is primary servers, then backups, then the least bad server that this request has not been
# to, then busy. Never one that is down or full.
# fails with: least_conn in place of labor (no server that is counted out is tried again); C without "backup" (it comes first).
use strict;
use warnings;
use Labor::Test;

# One worker and no reload: the exact order of single requests is looked at.
my $t = Labor::Test->new(workers => 1, reload => 0);
my @failing = ('A', 'B', 'C');
$t->model((map { $_ => 'service=const:5ms' } @failing), D => '', F => 'service=const:5ms');
# A counts as out after one failure, B after three: B is the worse one. POST, so that no trial is made of the requests.
$t->conf(<<'EOC')->run;
    log_format v '$upstream_addr|$upstream_status|$status';
    access_log %%DIR%%/access.log v;
    upstream u {
        labor;
        server %%ADDR_A%% max_fails=1 fail_timeout=1h;
        server %%ADDR_B%% max_fails=3 fail_timeout=1h;
        server %%ADDR_C%% max_fails=1 fail_timeout=1h backup;
        server %%ADDR_D%% down;
    }
    upstream full { labor; server %%ADDR_F%% max_conns=1; }
    server {
        listen %%LISTEN%%;
        proxy_next_upstream error timeout http_503 non_idempotent;
        location / { proxy_pass http://u; }
        location /full { proxy_pass http://full; }
    }
EOC

my %name = map { $t->expand("%%ADDR_$_%%") => $_ } 'A' .. 'F';
my $logged = 0;
# One request: its status and the servers it has been to, in order.
sub post {
    my $answer = $t->http(POST => $_[0] // '/', body => 'x');
    my @lines = $t->lines('access.log', ++$logged);
    my ($addresses) = split /\|/, $lines[$logged - 1];
    return ($answer->status, join ' ', map { $name{$_} // $_ } split /, /, $addresses);
}

# All is well: primary servers only.
my @order = map { [post()] } 1 .. 10;
is_deeply [grep { $_->[0] != 200 || $_->[1] !~ /^[AB]$/ } @order], [], 'primary servers as long as they are well'
    or diag explain \@order;

# Both primary servers fail until they are counted out; the backup is good.
$t->set(A => 'fail=1:503', B => 'fail=1:503');
my (@statuses, %last);
for (1 .. 8) {
    my ($status, $order) = post();
    push @statuses, $status;
    like $order, qr/^(?:[AB] )*C$/, 'primary before backup' or last;
    $last{$order}++;
}
is_deeply [grep { $_ != 200 } @statuses], [], 'no error while the backup is well';
ok $last{C}, 'counted out, the primary servers get no requests' or diag explain \%last;

# The backup fails too: then the least bad, each server once.
$t->set(C => 'fail=1:503');
my ($status, $order) = post();
is $status, 503, 'all fail: the last answer is passed on';
is $order, 'C A B', 'backup, then the least bad first, nobody twice, nobody that is down';
($status, $order) = post();
is join(' ', sort split / /, $order), 'A B C', 'nobody usable at all: still each is tried, and once' or diag $order;

# One that is well again is found like that at once, and serves.
$t->set(A => 'fail=0');
($status, $order) = post();
is $status, 200, 'a primary server that is well again serves though all are counted out';
is((split / /, $order)[-1], 'A', 'it is that one') or diag $order;
is $t->stats('D')->{requests}, 0, 'the server that is down never had a request';

# Busy: a full server is not usable, and no least bad one either.
$t->set(F => 'service=const:1s');
my $held = $t->connection;
$held->write(Labor::HTTP::format('/full'));
wait_for { $t->stats('F')->{in_flight} };
is $t->get('/full')->status, 502, 'the only server is full: busy at once';
is $held->read_answer->status, 200, 'the request there is answered';
is $t->get('/full')->status, 200, 'and then there is room again';

$t->done;
