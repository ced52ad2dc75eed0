# The log variables: empty without an upstream, one value an attempt, joined as nginx joins its own.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
$t->model(A => 'service=const:50ms', B => '', C => 'status=503', S => 'body=8k,chunk_delay=100ms');

my @names = qw(response_time header_time latency score inflight reason);
my $format = join ';', map { "\$labor_$_" } @names;
$t->conf(<<"EOC")->run;
    log_format v '\$uri;$format;\$upstream_addr;\$upstream_response_time';
    access_log %%DIR%%/access.log v;
    upstream one { labor; server %%ADDR_A%%; }
    upstream retry { labor; server %%DEAD%%; server %%ADDR_B%% backup; }
    upstream status { labor; server %%ADDR_C%% max_fails=0; server %%ADDR_B%% backup; }
    upstream slow { labor; server %%ADDR_S%%; }
    upstream plain { server %%ADDR_B%%; }
    server {
        listen %%LISTEN%%;
        location /none { return 204; }
        location /one { proxy_pass http://one; }
        location /retry { proxy_pass http://retry; }
        location /status { proxy_pass http://status; proxy_next_upstream http_503; }
        location /slow { proxy_pass http://slow; }
        location /plain { proxy_pass http://plain; }
        location /header { proxy_pass http://one; add_header X-Reason \$labor_reason; }
        location /internal {
            proxy_pass http://status;
            proxy_intercept_errors on;
            proxy_next_upstream off;
            error_page 503 = /second;
        }
        location = /second { internal; proxy_pass http://plain_b; }
    }
    upstream plain_b { labor; server %%ADDR_B%%; }
EOC

# One request, its line of the log as a hash.
my $requests = 0;
sub logged {
    my ($path) = @_;
    my $answer = $t->get($path);
    my @lines = $t->lines('access.log', ++$requests);
    my %line;
    @line{ 'uri', @names, 'addr', 'upstream_response_time' } = split /;/, $lines[-1], -1;
    return ({ %line, status => $answer->status, answer => $answer });
}

my $line = logged('/none');
is $line->{$_}, '-', "no upstream: \$labor_$_ is empty" for @names;

$line = logged('/one');
like $line->{response_time}, qr/^0\.\d{6}$/, 'response time in seconds with six decimals';
cmp_ok $line->{response_time}, '>=', 0.050, 'it is what the server took';
like $line->{header_time}, qr/^0\.\d{6}$/, 'header time in the same form';
cmp_ok $line->{header_time}, '<=', $line->{response_time}, 'the header comes before the end';
is $line->{reason}, 'only', 'the only server';
is $line->{inflight}, 0, 'nothing else in flight at the pick';

$line = logged('/one');
like $line->{latency}, qr/^\d+\.\d{6}$/, 'an estimate is given once something is known';
cmp_ok $line->{latency}, '>', 0.01, 'and is near what the server takes';
cmp_ok $line->{latency}, '<', 0.5, 'on both sides';

$line = logged('/slow');
cmp_ok $line->{response_time} - $line->{header_time}, '>=', 0.05, 'a slow body counts in the response time only'
    or diag explain $line;

$line = logged('/retry');
is $line->{status}, 200, 'a refused connection is retried on the backup';
for my $name (@names) {
    is scalar(split /, /, $line->{$name}, -1), 2, "\$labor_$name has one value an attempt" or diag $line->{$name};
}
is scalar(split /, /, $line->{addr}, -1), 2, 'as $upstream_addr has';
like $line->{reason}, qr/, backup$/, 'the second is a backup';
like $line->{header_time}, qr/^-, 0\.\d{6}$/, 'no header from the first';

$line = logged('/status');
is $line->{status}, 200, 'a 503 is retried';
like $line->{response_time}, qr/^0\.\d{6}, 0\.\d{6}$/, 'each attempt with its own time';

$line = logged('/internal');
is $line->{status}, 200, 'an error page from another upstream';
like $line->{addr}, qr/ : /, 'nginx joins its own over an internal redirect with a colon';
like $line->{reason}, qr/^\w+ : \w+$/, 'and so do these' or diag explain $line;

$line = logged('/header');
is $line->{answer}->header('X-Reason'), 'only', 'available in add_header';

$line = logged('/plain');
is $line->{reason}, '-', 'an upstream without labor has none';

$t->done;
