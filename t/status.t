# labor_status in JSON: as docs/status.schema.json describes it, before and after traffic; ?upstream, ?fields; methods.
use strict;
use warnings;
use Labor::Schema;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => 'service=const:5ms', B => 'service=const:20ms', C => '');
$t->conf(<<'EOC')->run;
    upstream u {
        zone u_zone 256k;
        labor;
        server %%ADDR_A%% weight=3 max_conns=50;
        server %%ADDR_B%% max_fails=0;
        server %%ADDR_C%% backup;
        server %%DEAD2%% down;
    }
    upstream out { zone out_zone 128k; labor; server %%DEAD%% max_fails=1 fail_timeout=100s; server %%DEAD3%% max_fails=1 fail_timeout=100s; }
    upstream other { labor header half_life=2s explore=2%; server %%ADDR_B%%; }
    upstream none { server %%ADDR_B%%; }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; }
        location /out { proxy_pass http://out; }
        location /other { proxy_pass http://other; }
    }
EOC

my $schema = Labor::Schema->new('docs/status.schema.json');
ok grep({ /not foreseen/ } $schema->errors({ version => 1, more => 1 })), 'the schema refuses what it does not know';

# The status, which must be as the schema says.
sub status {
    my ($what, $query) = @_;
    my $status = $t->status($query);
    my @errors = $schema->errors($status);
    is_deeply \@errors, [], "$what: as the schema describes it" or diag join "\n", @errors;
    return $status;
}

my $status = status('before any request');
is_deeply [sort keys %{ $status->{upstreams} }], [qw(other out u)], 'upstreams with labor, and no other';
my ($first) = @{ $status->{upstreams}{u}{peers} };
ok !exists $first->{$_}, "no $_ before the first answer" for qw(header_time response_time selected);
ok abs($status->{timestamp} / 1000 - time) < 5, 'the time is that of the host';

$t->load(rate => 200, requests => 200);
$t->get('/other') for 1 .. 3;
is $t->get('/out')->status, 502, 'two servers that nobody is at';
$status = status('after requests');
my $u = $status->{upstreams}{u};
my ($a, $b, $down, $backup) = @{ $u->{peers} };
is_deeply [map { $_->{id} } @{ $u->{peers} }], [0 .. 3], 'ids are positions';
is_deeply [map { $_->{server} } @{ $u->{peers} }], [map { $t->expand("%%$_%%") } qw(ADDR_A ADDR_B DEAD2 ADDR_C)], 'addresses';
is_deeply [map { $_->{backup} ? 1 : 0 } @{ $u->{peers} }], [0, 0, 0, 1], 'the backup is last, and says so';
is $u->{zone}, 'u_zone', "nginx's zone";
is $status->{upstreams}{other}{zone}, undef, 'and none';
is $a->{weight}, 3, 'weight';
is $a->{max_conns}, 50, 'max_conns';
ok !exists $b->{max_conns}, 'no max_conns where there is no limit';
is_deeply $a->{labor}{weight}, { effective => 3, configured => 3, source => 'configuration' }, 'and where the weight comes from';
is $down->{state}, 'down', 'a server that is down';
my ($dead) = @{ $status->{upstreams}{out}{peers} };
is $dead->{state}, 'unavail', 'one that max_fails took out';
is $dead->{labor}{state}, 'unavail', 'in either vocabulary';
cmp_ok $dead->{fails}, '>=', 1, 'its failures';
is $dead->{fails}, $dead->{labor}{failures}{connect}, 'of their kind';
like $a->{selected}, qr/^20\d\d-/, 'when it was last picked';
my $sum = 0;
$sum += $_->{requests} for @{ $u->{peers} };
is $u->{labor}{requests}, $sum, 'requests of the upstream are those of its servers';
my $other = $status->{upstreams}{other}{labor};
is_deeply [@$other{qw(policy metric half_life requests)}], ['fastest', 'header', 2, 3], 'settings';

# Queries.
$status = status('?upstream', 'upstream=other');
is_deeply [keys %{ $status->{upstreams} }], ['other'], 'one upstream';
is_deeply status('?upstream unknown', 'upstream=nobody')->{upstreams}, {}, 'an unknown one';
is_deeply [keys %{ status('?upstream encoded', 'upstream=%6f%74her')->{upstreams} }], ['other'], 'an encoded name';
$status = status('?fields', 'upstream=u&fields=server,state');
is_deeply $status->{upstreams}{u}{peers}[0], { server => $a->{server}, state => 'up' }, 'two fields';
is_deeply [keys %{ $status->{upstreams}{u} }], ['peers'], 'and no other of the upstream';
is_deeply status('?fields=', 'fields=')->{upstreams}{other}, { peers => [{}] }, 'no field at all';

# Methods.
my $port = $t->port('_STATUS');
for my $method (qw(POST PUT DELETE PATCH)) {
    my $answer = $t->http($method => '/', port => $port, body => 'x');
    is $answer->status, 405, "$method is refused";
    is $answer->header('Allow'), 'GET, HEAD', 'with what is allowed';
}
my $answer = $t->http(HEAD => '/', port => $port);
is_deeply [$answer->status, $answer->body], [200, ''], 'HEAD: no body';
is $answer->header('Cache-Control'), 'no-store', 'never to be cached';

$t->done;
