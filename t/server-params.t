# Every parameter of `server`, and every kind of address.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
my $sock = $t->dir . '/backend.sock';
$t->model(
    (map { $_ => 'service=const:5ms' } qw(W1 W2 W7)),
    (map { $_ => 'service=const:300ms' } qw(M1 M2 M3 M4 M5)),
    (map { $_ => '' } qw(F1 F2 B1 B2 B3 D1 D2 S1 X1 T1 V1 R1)),
    UX => "listen=unix:$sock",
    $t->has('ipv6') ? (V6 => 'listen=[::1]:0') : (),
);

my %block = (
    max => 'zone max 256k; server %%ADDR_M1%% max_conns=2; server %%ADDR_M2%%;',
    full => 'zone full 256k; server %%ADDR_M3%% max_conns=1; server %%ADDR_M4%% max_conns=1; server %%ADDR_M5%% backup max_conns=1;',
    fails => 'zone fails 256k; server %%ADDR_F1%% max_fails=2 fail_timeout=1h; server %%ADDR_F2%%;',
    backup => 'server %%ADDR_B1%%; server %%ADDR_B2%% backup; server %%ADDR_B3%% backup;',
    down => 'server %%ADDR_D1%% down; server %%ADDR_D2%%;',
    single => 'server %%ADDR_S1%% max_fails=1 fail_timeout=1h;',
    alone => 'server %%ADDR_X1%% max_fails=1 fail_timeout=1h; server %%DEAD%% down;',
    twice => 'server %%ADDR_T1%%; server %%ADDR_T1%%;',
    dead => 'server %%DEAD%% max_fails=0; server %%DEAD%% max_fails=0; server %%DEAD2%% max_fails=0;',
    sockets => "server unix:$sock; server %%ADDR_V1%%;" . ($t->has('ipv6') ? ' server %%ADDR_V6%%;' : ''),
);
my $upstreams = join '', map { "upstream $_ { labor; $block{$_} }\n" } sort keys %block;
my $locations = join '', map { "location /$_ { proxy_pass http://$_; }\n" } sort keys %block;

# The log variable says how often which server was tried; the addresses are those of the configuration.
$t->conf(<<"EOC")->run;
    log_format v '\$uri;\$status;\$upstream_addr;\$labor_reason';
    access_log %%DIR%%/access.log v;
    $upstreams
    server {
        listen %%LISTEN%%;
        proxy_next_upstream error timeout;
        $locations
        location /variable { set \$name down; proxy_pass http://\$name; }
    }
EOC

sub statuses {
    my %seen;
    $seen{ $_ ? $_->status : 'none' }++ for @_;
    return \%seen;
}
sub requests { return $t->stats($_[0])->{requests} }

subtest 'max_conns: the next best, then the backups, then 502' => sub {
    is_deeply statuses($t->burst(12, '/max')), { 200 => 12 }, 'all served';
    cmp_ok $t->stats('M1')->{max_in_flight}, '<=', 2, 'never more than max_conns at once, over all workers';
    cmp_ok requests('M1'), '>=', 1, 'and some';
    is_deeply statuses($t->burst(6, '/full')), { 200 => 3, 502 => 3 }, 'all full: backups count, the rest is refused';
    is $t->stats($_)->{max_in_flight}, 1, "$_ had one at once" for qw(M3 M4 M5);
    is_deeply statuses($t->burst(2, '/full')), { 200 => 2 }, 'places are given back';
};

subtest 'max_fails: counted out, still tried by trials, back in time' => sub {
    $t->set(F1 => 'reset=header');
    my $rounds = 60;
    my @answers = map { $t->get('/fails') } 1 .. $rounds;
    is_deeply statuses(@answers), { 200 => $rounds }, 'failures are retried elsewhere';
    cmp_ok requests('F1'), '>=', 1, 'the failing server was tried';
    cmp_ok requests('F1'), '<=', 8, 'and then hardly any more';
    $t->set(F1 => 'reset=none')->reset('F1');
    # Trials: one every max(5 s, 100 picks). Twenty connections a round keep the picks coming.
    eventually { $t->burst(5, '/fails'); $t->stats('F1')->{answers} >= 20 }
        'a server that is well again is back within a minute, whatever fail_timeout says', 60;
};

subtest 'backup' => sub {
    is_deeply $t->servers(10, '/backup'), { B1 => 10 }, 'no backup while a primary serves';
    $t->close('B1');
    my $served = $t->servers(20, '/backup');
    is_deeply [sort keys %$served], [qw(B2 B3)], 'the backups, both, when it does not' or diag explain $served;
    $t->open('B1');
    eventually { $t->burst(5, '/backup'); requests('B1') > 10 } 'the primary is back', 60;
};

subtest 'down' => sub {
    is_deeply $t->servers(20, '/down'), { D2 => 20 }, 'a server that is down gets nothing';
    is_deeply $t->servers(5, '/variable'), { D2 => 5 }, 'neither with a variable in proxy_pass';
};

subtest 'one usable server is always tried' => sub {
    for my $case ([single => 'S1'], [alone => 'X1']) {
        my ($path, $server) = @$case;
        $t->set($server => 'reset=header');
        is_deeply $t->servers(2, "/$path"), { 'status 502' => 2 }, "$path: it fails";
        $t->set($server => 'reset=none');
        is_deeply $t->servers(5, "/$path"), { $server => 5 }, "$path: and is used at once when it no longer does";
    }
};

subtest 'the same address twice' => sub {
    is_deeply $t->servers(10, '/twice'), { T1 => 10 }, 'serves';
    is $t->get('/dead')->status, 502, 'nobody answers';
    my $line = '';
    wait_for { ($line) = grep { m{^/dead;} } $t->lines('access.log') };
    my @tried = split /, /, (split /;/, $line)[2];
    is_deeply [sort @tried], [sort map { $t->expand($_) } '%%DEAD%%', '%%DEAD%%', '%%DEAD2%%'],
        'each of the servers once, equal addresses too' or diag $line;
};

subtest 'kinds of addresses' => sub {
    my $served = $t->servers(30, '/sockets');
    is_deeply [sort keys %$served], [sort 'UX', 'V1', $t->has('ipv6') ? 'V6' : ()], 'unix, IPv4, IPv6 all serve'
        or diag explain $served;
    my @lines = map { (split /;/)[3] } grep { m{^/sockets;} } $t->lines('access.log', 30);
    ok !(grep { !/^\w+$/ } @lines), 'each pick has a reason' or diag explain \@lines;
};

$t->done;
