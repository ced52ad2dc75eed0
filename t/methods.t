# Every kind of pass through `labor;`: proxy, FastCGI, uwsgi, SCGI, gRPC, memcached. Each reaches both servers, each learns.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
my @protocols = (qw(http fastcgi uwsgi scgi memcached), $t->has('http2') ? 'grpc' : ());
$t->model(map { my $p = $_; map { ("$p$_" => "protocol=$p") } 1, 2 } @protocols);

my %pass = (
    http => 'proxy_pass http://http;',
    fastcgi => 'fastcgi_pass fastcgi; fastcgi_param REQUEST_METHOD $request_method;',
    uwsgi => 'uwsgi_pass uwsgi; uwsgi_param REQUEST_METHOD $request_method;',
    scgi => 'scgi_pass scgi; scgi_param SCGI 1; scgi_param REQUEST_METHOD $request_method;',
    memcached => 'set $memcached_key $uri; memcached_pass memcached;',
    grpc => 'grpc_pass grpc://grpc;',
);
my $upstreams = join '', map { "upstream $_ { labor; server %%ADDR_${_}1%%; server %%ADDR_${_}2%%; }\n" } @protocols;
my $locations = join '', map { "location /$_ { $pass{$_} }\n" } @protocols;

# A request without a body is what every pass has in common; gRPC needs HTTP/2 only towards the server.
$t->conf(<<"EOC")->run;
    log_format times '\$uri \$labor_reason \$labor_response_time \$labor_header_time \$upstream_addr';
    access_log %%DIR%%/access.log times;
    $upstreams
    server {
        listen %%LISTEN%%;
        $locations
    }
EOC

my $each = 12;
for my $protocol (@protocols) {
    my @answers = map { $t->get("/$protocol") } 1 .. $each;
    is scalar(grep { $_->status == 200 && $_->complete } @answers), $each, "$protocol: $each answers"
        or diag explain [map { $_->status } @answers];
    my %requests = map { $_ => $t->stats("$protocol$_")->{requests} } 1, 2;
    is $requests{1} + $requests{2}, $each, "$protocol: each request once";
    ok $requests{1} && $requests{2}, "$protocol: both servers" or diag explain \%requests;
}

my $expected = $each * @protocols;
my @lines = $t->lines('access.log', $expected);
is scalar @lines, $expected, 'all are logged';
for my $protocol (@protocols) {
    my @times = map { (split)[2, 3] } grep { m{^/$protocol } } @lines;
    is scalar(grep { !/^\d+\.\d{6}$/ } @times), 0, "$protocol: response and header time are measured" or diag explain \@times;
}

$t->done;
