# labor_api: what can be seen, what is refused and how, and that bodies arrive whichever way they are sent.

use strict;
use warnings;

use Labor::Api;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => 'service=const:1ms', B => 'service=const:1ms');
$t->conf(<<'EOC' . Labor::Api::server())->run;
    log_format id '$request_id';
    upstream u {
        labor;
        server %%ADDR_A%% weight=2 max_conns=50 max_fails=3 fail_timeout=7s;
        server %%ADDR_B%% backup;
    }
    upstream "odd / \"name\" <b>" { labor; server %%ADDR_A%%; server %%ADDR_A%%; }
    upstream plain { server %%ADDR_A%%; }
    server {
        listen %%LISTEN%%;
        location / { proxy_pass http://u; }
        location /plain { proxy_pass http://plain; }
        location = /exact { labor_api; }
        location /files/ { labor_api write=on; client_body_in_file_only on; client_body_buffer_size 16; }
        location /limited { labor_api write=on; limit_except GET { deny all; } }
        location /logged/ { access_log %%DIR%%/api.log id; labor_api; }
        allow 127.0.0.1;
    }
EOC
my $api = Labor::Api->new($t);
my ($first, $code) = ('/upstreams/u/servers/0', \&Labor::Api::code);
my $address = '127.0.0.1:' . $t->port('A');

# ---- what can be seen

my ($status, $json, $answer) = $api->get('/');
is_deeply $json, { version => 1, endpoints => ['upstreams'], write => JSON::PP::true() }, 'the root says what there is';
is $answer->header('Cache-Control'), 'no-store', 'nothing is cached';
is $answer->header('Content-Type'), 'application/json', 'it is JSON';
(undef, $json) = $api->get('/upstreams');
is_deeply [sort keys %$json], ['odd / "name" <b>', 'u'], 'upstreams with labor, and no others';
is $json->{u}{peers}[0]{server}, $address, 'servers as the status shows them';
ok !exists $json->{u}{peers}[0]{labor}{curve}, 'without curves';
is_deeply [$api->get('/upstreams/u')]->[1]{peers}[1]{backup}, JSON::PP::true(), 'one upstream, its backup server too';
(undef, $json) = $api->get('/upstreams/u/servers');
is scalar @$json, 2, 'both servers';
my %configured = (effective => 50, configured => 50, source => 'configuration');
is_deeply $json->[0], {
    id => 0, server => $address, name => $address, weight => 2, max_conns => 50, max_fails => 3, fail_timeout => '7s',
    backup => JSON::PP::false(), down => JSON::PP::false(), drain => JSON::PP::false(), state => 'up',
    labor => {
        weight => { effective => 2, configured => 2, source => 'configuration' }, max_conns => \%configured,
        state => { effective => 'up', configured => 'up', source => 'configuration' },
    },
}, 'a server: as configured';
is_deeply [$api->get($_)]->[1], $json->[0], "the same as $_" for $first, "/upstreams/u/servers/$address", "$first/",
    '/upstreams/u/servers/' . $address =~ s/:/%3A/r;
is $code->($api->get('/upstreams/odd%20%2F%20%22name%22%20%3Cb%3E/servers/1')), 200, 'names are decoded, slashes too';
is $code->($api->get("/upstreams/odd%20%2F%20%22name%22%20%3Cb%3E/servers/$address")), '400 UpstreamBadServerId',
    'an address that two servers have means neither';

($status, $json, $answer) = $api->request(HEAD => '/upstreams');
is_deeply [$status, $answer->body], [200, ''], 'HEAD';
ok $answer->header('Content-Length') > 100, 'as long as the GET';
($status, undef, $answer) = $api->request(OPTIONS => $first);
is_deeply [$status, $answer->header('Allow')], [204, 'GET, HEAD, PATCH, OPTIONS'], 'OPTIONS says what is possible';
ok !grep({ $_->[0] =~ /^Access-Control/i } @{ $answer->{headers} }), 'and no other site is let in';

# ---- what is refused

for my $case (
    ['GET', '/nothing', '404 PathNotFound'],
    ['GET', '/upstreams/plain', '404 UpstreamNotFound'],
    ['GET', '/upstreams/nobody/servers/0', '404 UpstreamNotFound'],
    ['GET', '/upstreams/u/servers/2', '404 UpstreamServerNotFound'],
    ['GET', '/upstreams/u/servers/99999999999999999999', '404 UpstreamServerNotFound'],
    ['GET', '/upstreams/u/servers/10.9.9.9:80', '404 UpstreamServerNotFound'],
    ['GET', '/upstreams/u/statistics', '405 MethodNotAllowed', 'DELETE, OPTIONS'],
    ['POST', $first, '405 MethodNotAllowed', 'GET, HEAD, PATCH, OPTIONS'],
    ['PUT', '/upstreams', '405 MethodNotAllowed', 'GET, HEAD, OPTIONS'],
    ['DELETE', $first, '405 MethodNotAllowed', 'GET, HEAD, PATCH, OPTIONS'],
    ['DELETE', '/upstreams/nobody/statistics', '404 UpstreamNotFound'],
    ['DELETE', '/upstreams/u/servers/7/overrides', '404 UpstreamServerNotFound'],
    ['PATCH', '/upstreams/u/servers/7', '404 UpstreamServerNotFound'],
) {
    my ($method, $path, $expected, $allow) = @$case;
    my %with = $method eq 'PATCH' ? (body => '{"weight":1}', headers => ['Content-Type' => 'application/json']) : ();
    my ($status, $json, $answer) = $api->request($method, $path, %with);
    is $code->($status, $json), $expected, "$method $path: $expected";
    is $answer->header('Allow'), $allow, "… with Allow: $allow" if $allow;
    like $json->{request_id}, qr/^[0-9a-f]{32}$/, '… with the id of the request' if $method eq 'GET';
    is_deeply [sort keys %$json], [qw(error href request_id)], '… in the shape of NGINX Plus' if $method eq 'GET';
}

my @json = ('Content-Type' => 'application/json');
for my $case (
    ['', '400 UpstreamConfFormatError', qr/empty/],
    ['{', '415 JsonError', qr/invalid JSON/],
    ['{"weight":1}{"weight":2}', '415 JsonError', qr/trailing/],
    ['[1,"up",2]', '400 UpstreamConfFormatError', qr/object/],
    ['{}', '400 UpstreamConfFormatError', qr/nothing to change/],
    ['{"weight":1,"wait\u0022<b>":2}', '400 UpstreamConfFormatError', qr/unknown field "wait"<b>"/],
    ['{"weight":1,"weight":2}', '400 UpstreamConfFormatError', qr/"weight" stands there twice/],
    ['{"weight":65536}', '400 UpstreamBadWeight', qr/0 to 65535/],
    ['{"weight":-1,"state":"down"}', '400 UpstreamBadWeight', qr/weight/],
    ['{"state":"gone","weight":9}', '400 UpstreamBadState', qr/"drain"/],
    ['{"max_conns":1.5}', '400 UpstreamBadMaxConns', qr/max_conns/],
    ['{"weight":' . '[' x 100 . ']' x 100 . '}', '415 JsonError', qr/nested/],
    ['{"weight":1' . ' ' x 5000 . '}', '413 BodyTooLarge', qr/4096/],
) {
    my ($body, $expected, $text) = @$case;
    my ($status, $json) = $api->patch($first, $body);
    is $code->($status, $json), $expected, 'body ' . substr($body, 0, 40) . ": $expected";
    like $json->{error}{text}, $text, '… and says what is wrong';
}
for my $case (
    [['Content-Type' => 'text/plain'], '415 UnsupportedMediaType'],
    [[], '415 UnsupportedMediaType'],
    [[@json, 'Sec-Fetch-Site' => 'cross-site'], '403 CrossSiteRequest'],
    [[@json, 'Sec-Fetch-Site' => 'same-site'], '403 CrossSiteRequest'],
    [[@json, Origin => 'http://evil.example'], '403 CrossSiteRequest'],
    [[@json, Origin => 'null'], '403 CrossSiteRequest'],
) {
    my ($headers, $expected) = @$case;
    is $code->($api->patch($first, '{"weight":1}', headers => $headers)), $expected, "@$headers: $expected";
}
is $code->($api->delete('/upstreams/u/statistics', headers => [Origin => 'http://evil.example'])), '403 CrossSiteRequest',
    'a DELETE of another site';
is_deeply [$api->get($first)]->[1]{labor}{max_conns}, \%configured, 'nothing of all that has changed anything';
is [$api->get($first)]->[1]{weight}, 2, 'not the weight either';

my @own = (Origin => 'http://labor.test:81', 'Sec-Fetch-Site' => 'same-origin');
is $code->($api->patch($first, '{"weight":4}', headers => [@json, @own], host => 'labor.test:81')), 200, 'a page of our own may';

# ---- read-only, and other locations

my $other = sub { my ($method, $path, %with) = @_; my $a = $t->http($method, $path, %with); return ($a->status, eval { JSON::PP::decode_json($a->body) }, $a) };
is $code->($other->(GET => '/exact')), 200, 'an exact location';
for my $method (qw(PATCH DELETE POST PUT)) {
    my ($status, $json, $answer) = $other->($method => '/exact', body => '{}');
    is $code->($status, $json), '405 MethodDisabled', "$method where nothing may be changed";
    is $answer->header('Allow'), 'GET, HEAD, OPTIONS', '… and what may';
}
is $code->($other->(GET => '/limited/upstreams')), 200, 'limit_except lets readers in';
is $code->($other->(PATCH => "/limited$first", body => '{"weight":9}', headers => \@json)), 403, 'and nobody else';
(undef, $json) = $other->(GET => '/logged/nothing');
like +($t->lines('api.log'))[0], qr/^\Q$json->{request_id}\E$/, 'the id is that of the logs';

# ---- every way for a body to arrive

my $weight = sub { return [$api->get($first)]->[1]{weight} };
is $code->($other->(PATCH => "/files$first", body => '{"weight":    11}', headers => \@json)), 200, 'a body in a file';
is $weight->(), 11, '… is read';
is $code->($other->(PATCH => "/files$first", body => '{"weight":' . ' ' x 4090 . '1}', headers => \@json)), '413 BodyTooLarge',
    '… with its limit';
my $raw = sub {
    my (@parts) = @_;
    my $connection = $t->connection($t->port('API'));
    for (@parts) { ref $_ ? $_->($connection) : $connection->write($_) }
    my $answer = $connection->read_answer;
    return $answer ? $answer->status : 'nothing';
};
my $head = "PATCH /api$first HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json; charset=utf-8\r\n";
is $raw->("${head}Transfer-Encoding: chunked\r\n\r\n", "5\r\n{\"wei\r\n", "9\r\nght\":12 }\r\n0\r\n\r\n"), 200, 'a chunked body';
is $weight->(), 12, '… is put together';
is $raw->("${head}Transfer-Encoding: chunked\r\n\r\n", map({ sprintf "%x\r\n%s\r\n", 1000, ' ' x 1000 } 1 .. 5), "0\r\n\r\n"), 413,
    '… and has the same limit';
is $raw->("${head}Expect: 100-continue\r\nContent-Length: 13\r\n\r\n", '{"weight":13}'), 200, 'a client that waits for 100 Continue';
is $weight->(), 13, '… is served';
is $raw->("${head}Content-Length: 13\r\n\r\n", '{"wei', sub { select undef, undef, undef, 0.1 }, 'ght":14}'), 200, 'a slow client';
is $weight->(), 14, '… too';
my $gone = $t->connection($t->port('API'));
$gone->write("${head}Content-Length: 13\r\n\r\n{\"weight\":1");
$gone->close;
is [$api->patch($first, { weight => undef, max_conns => 7 })]->[1]{labor}{weight}{source}, 'configuration', 'null gives the configured value back';
(undef, $json) = $api->get($first);
is_deeply [@$json{qw(weight max_conns)}, $json->{labor}{max_conns}], [2, 7, { %configured, effective => 7, source => 'api' }],
    'and a half-sent body changed nothing';
is_deeply [[$api->delete("$first/overrides")]->[1]{labor}{max_conns}], [\%configured], 'overrides are taken back at once';

# ---- the log

my ($line) = grep { /labor: api: .*max_conns/ } split /\n/, $t->error_log;
like $line, qr/\[notice\].*PATCH by "127\.0\.0\.1", user "", request [0-9a-f]{32}: upstream "u", server "\Q$address\E" \(id 0\): /,
    'a change is logged: who and what';
like $line, qr/weight 14 \(api\) -> 2 \(configuration\), max_conns 50 \(configuration\) -> 7 \(api\)/, '… from what to what';
$t->done;
