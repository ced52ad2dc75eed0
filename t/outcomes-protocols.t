# How attempts ended in the other protocols: gRPC statuses, FastCGI, uwsgi, SCGI, memcached.
# fails with any other table in src/outcome.rs: a gRPC failure comes with the HTTP status 200.
use strict;
use warnings;
use Labor::Test;
use Labor::Outcomes;
use Labor::Raw qw(linger);

my $t = Labor::Test->new;

# Name → protocol, words for the model server, outcome.
my %case = (
    fastcgi => ['fastcgi', '', 'pass/200'],
    fastcgi_500 => ['fastcgi', 'status=500', 'fail-status/500'],
    fastcgi_404 => ['fastcgi', 'status=404', 'refused/404'],
    fastcgi_hang => ['fastcgi', 'hang', 'fail-timeout/0'],
    fastcgi_cut => ['fastcgi', 'reset=body,body=1k', 'fail-reset/200'],
    fastcgi_garbage => ['fastcgi', 'garbage', 'fail-header/0'],
    uwsgi => ['uwsgi', '', 'pass/200'],
    uwsgi_503 => ['uwsgi', 'status=503', 'fail-status/503'],
    uwsgi_cut => ['uwsgi', 'reset=body,body=1k', 'fail-reset/200'],
    scgi => ['scgi', '', 'pass/200'],
    scgi_503 => ['scgi', 'status=503', 'fail-status/503'],
    scgi_reset => ['scgi', 'reset=header', 'fail-reset/0'],
    memcached => ['memcached', '', 'pass/200'],
    memcached_hang => ['memcached', 'hang', 'fail-timeout/0'],
    memcached_error => ['memcached', 'fail=1', 'fail-header/0'],
);
if ($t->has('http2')) {
    my %grpc = (
        grpc => ['', 'pass/200'],
        (map { ("grpc_$_" => ["grpc_status=$_", 'fail-status/200'], "grpc_only_$_" => ["grpc_status=$_,trailers_only", 'fail-status/200']) }
            4, 8, 13, 14),
        (map { ("grpc_$_" => ["grpc_status=$_", 'refused/200'], "grpc_only_$_" => ["grpc_status=$_,trailers_only", 'refused/200']) }
            5, 16),
        grpc_hang => ['hang', 'fail-timeout/0'],
        grpc_stream => ['reset=body,chunk_delay=200ms', 'fail-header/200'],
        grpc_reset => ['reset=header', 'fail-header/0'],
    );
    $case{$_} = ['grpc', @{ $grpc{$_} }] for keys %grpc;
}
$t->model(map { $_ => join ',', "protocol=$case{$_}[0]", $case{$_}[1] || () } keys %case);

# A key that is not there, and a value that breaks off.
$t->raw(
    memcached_miss => sub { my ($socket) = @_; sysread $socket, my $line, 512 and print $socket "END\r\n"; linger($socket) },
    memcached_cut => sub { my ($socket) = @_; sysread $socket, my $line, 512 and print $socket "VALUE x 0 20\r\nhi" },
);
$case{memcached_miss} = ['memcached', '', 'refused/404'];
$case{memcached_cut} = ['memcached', '', 'fail-reset/200'];

my %pass = (
    fastcgi => 'fastcgi_pass %; fastcgi_param REQUEST_METHOD $request_method; fastcgi_keep_conn on;',
    uwsgi => 'uwsgi_pass %; uwsgi_param REQUEST_METHOD $request_method;',
    scgi => 'scgi_pass %; scgi_param SCGI 1; scgi_param REQUEST_METHOD $request_method;',
    memcached => 'set $memcached_key x; memcached_pass %;',
    grpc => 'grpc_pass grpc://%;',
);
my $upstreams = join '', map { "upstream $_ { labor; server %%ADDR_$_%% max_fails=0; }\n" } sort keys %case;
my $locations = join '', map {
    my ($name, $protocol) = ($_, $case{$_}[0]);
    my $timeout = /hang/ ? "${protocol}_read_timeout 300ms;" : '';
    "location /$name { @{[$pass{$protocol} =~ s/%/$name/r]} $timeout }\n"
} sort keys %case;
my $logs = outcome_logs();
$t->conf(<<"EOC")->run;
    $logs
    $upstreams
    server { listen %%LISTEN%%; $locations }
EOC

check_outcome($t, $_, $case{$_}[2], sub { $t->get("/$_") }) for sort keys %case;

$t->done;
