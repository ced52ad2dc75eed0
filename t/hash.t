# `labor_hash`: requests with a key stay with their server over reloads, retries go on in the key's order, and who goes or drains takes
# only its own keys along.
# fails without the line labor_hash (keys move), and with secrets drawn anew (homes move with the reload of another size).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
my @names = qw(A B C D);
my @keys = map { "session-$_" } 1 .. 40;
$t->model(map { $_ => 'service=const:2ms' } @names);

sub conf {
    my (%with) = @_;
    my %server = (map({ $_ => '' } @names), %{ $with{servers} // {} });
    my $servers = join ' ', map { "server %%ADDR_$_%% max_fails=0 $server{$_};" } grep { defined $server{$_} } @names;
    # Without slack: on a busy machine one of two equal servers may look three times slower.
    my $hash = $with{hash} // 'labor_hash $arg_k slack=off;';
    my $zone = $with{zone} // '';
    return <<"EOC";
    $zone
    log_format v '\$labor_reason';
    access_log %%DIR%%/access.log v;
    upstream u { labor; $hash $servers }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; add_header X-Why \$labor_reason always; add_header X-Addr \$upstream_addr always; }
    }
EOC
}

# Who answers each key: {key => server}.
sub homes {
    return { map { my $answer = $t->get("/?k=$_"); $_ => $answer->header('X-Server') // $answer->status } @keys };
}

# The keys whose server is not the same, by the server before.
sub moved {
    my ($before, $after) = @_;
    my %moved;
    $moved{ $before->{$_} }++ for grep { $before->{$_} ne $after->{$_} } @keys;
    return \%moved;
}

$t->conf(conf())->run;
my $homes = homes();
my %count;
$count{$_}++ for values %$homes;
# A server without any of 40 keys: 0.75 to the 40th, one in a hundred thousand for each.
cmp_ok scalar(keys %count), '>=', 3, 'keys are spread' or diag explain \%count;
is_deeply homes(), $homes, 'and stay' for 1 .. 2;
my $answer = $t->get("/?k=$keys[0]");
is $answer->header('X-Why'), 'hash', '$labor_reason is hash';
isnt $t->get('/')->header('X-Why'), 'hash', 'without a key: the usual pick';
isnt $t->get('/?k=')->header('X-Why'), 'hash', 'an empty key is none';

# A reload keeps them, also one that makes other memory of another size, and one that measures something else.
$t->reload;
is_deeply homes(), $homes, 'a reload keeps homes';
$t->conf(conf(zone => 'labor_zone 3m;'))->reload;
is_deeply homes(), $homes, 'so does another size of the zone';
$t->conf(conf())->reload;
is_deeply homes(), $homes, 'and back';

# One goes for a while: its keys go on, the others stay; then they come back.
my ($gone) = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
$t->close($gone);
my $meanwhile = homes();
is_deeply [grep { $_ eq $gone || $_ eq '502' } values %$meanwhile], [], 'keys of a server that is down are answered elsewhere';
is_deeply moved($homes, $meanwhile), { $gone => $count{$gone} }, 'and only those';
my $same = homes();
is_deeply moved($meanwhile, $same), {}, 'each has its own second server, always the same' or diag explain [$meanwhile, $same];
$t->open($gone);
eventually { !%{ moved($homes, homes()) } } 'afterwards they come back', 30;

# Down, and draining: the same without an attempt.
for my $word ('down', $t->has('sticky') ? 'drain' : ()) {
    $t->conf(conf(servers => { $gone => $word }))->reload;
    is_deeply homes(), $meanwhile, "$word: its keys are with their second servers";
}

# A list without it: again only its keys move. Then with a new weight.
$t->conf(conf(servers => { $gone => undef }))->reload;
is_deeply moved($homes, homes()), { $gone => $count{$gone} }, 'gone for good: only its keys move';
$t->conf(conf())->reload;
is_deeply homes(), $homes, 'and with the server they come back';
$t->conf(conf(servers => { $gone => 'weight=3' }))->reload;
my $heavier = homes();
ok !moved($homes, $heavier)->{$gone}, 'more weight: a server keeps its keys and gets others' or diag explain moved($homes, $heavier);

# Another host with the same secret has the same homes; another secret has others.
$t->conf(conf(hash => 'labor_hash $arg_k slack=off secret=0123456789abcdef;'))->reload;
my $shared = homes();
# 40 keys at the same of four servers by chance: 4 to the -40th.
cmp_ok scalar(keys %{ moved($homes, $shared) }), '>', 0, 'a secret of its own: other homes';
$t->stop;
$t->conf(conf(hash => 'labor_hash $arg_k secret=0123456789abcdef bound=2 vnodes=64 slack=off;'))->run;
is_deeply homes(), $shared, 'the same secret after a restart: the same homes';

# A session of nginx's `sticky` comes before the key, where it has begun by the key; also when its server drains.
if ($t->has('sticky')) {
    $t->conf(conf(hash => 'labor_hash $arg_k slack=off; sticky cookie sid;'))->reload;
    my $first = $t->get("/?k=$keys[0]");
    my $server = $first->header('X-Server');
    my ($cookie) = $first->header('Set-Cookie') =~ /^(sid=[^;]+)/;
    is $first->header('X-Why'), 'hash', 'a new session begins at the home of its key';
    my ($other) = grep { $t->get("/?k=$_")->header('X-Server') ne $server } @keys;
    my $go = sub { my $answer = $t->get("/?k=$other", headers => [Cookie => $cookie]); join ' ', map { $answer->header($_) } qw(X-Server X-Why) };
    is $go->(), "$server sticky", 'and stays there whatever its key becomes';
    $t->conf(conf(hash => 'labor_hash $arg_k slack=off; sticky cookie sid;', servers => { $server => 'drain' }))->reload;
    is $go->(), "$server sticky", 'also while that server drains';
    isnt $t->get("/?k=$keys[0]")->header('X-Server'), $server, 'where its key alone does not lead any more';
}

# A home that answers much later than the others is left, and gets its keys back when it is well again. Twenty milliseconds: beside
# that, a busy machine makes no server look three times slower for long.
$t->set($_ => 'service=const:20ms') for @names;
$t->conf(conf())->reload;
# Memory that is new has a secret that is new.
$homes = homes();
my ($slow) = sort values %$homes;
my @own = grep { $homes->{$_} eq $slow } @keys;
$t->conf(conf(hash => 'labor_hash $arg_k slack=3;'))->reload;
# How many of the requests of its own keys it answers.
my $answers = sub { return scalar grep { ($t->get("/?k=$_")->header('X-Server') // '') eq $slow } (@own) x 2 };
$t->set($slow => 'service=const:400ms');
# One of its own goes there now and then, to see.
eventually { $answers->() <= @own / 2 } 'a slow home is left', 30;
$t->set($slow => 'service=const:20ms');
eventually { $answers->() == 2 * @own } 'and found again once it is well', 60;
$t->done;
