# How attempts ended, by status: what the server said, and where nginx turned then.
# fails with any other table in src/outcome.rs, and with an attempt that is booked twice, never, or on another server.
use strict;
use warnings;
use Labor::Test;
use Labor::Outcomes;
use Labor::Raw qw(read_head);

my $t = Labor::Test->new;
my @statuses = qw(404 429 500 501 503 505 599);
$t->model(ok => '', map { ("s$_" => "status=$_") } @statuses);

# A second answer that is a 500; each other is fine.
my $flips = $t->dir . '/flips';
$t->raw(
    flip => sub {
        my ($socket) = @_;
        read_head($socket) or return;
        my $second = -e $flips;
        if (open my $note, '>', $flips) { close $note }
        print $socket $second ? "HTTP/1.1 500 No\r\n" : "HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\nConnection: close\r\n\r\nok";
    },
    not_modified => sub { read_head($_[0]) and print { $_[0] } "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n" },
    accel => sub {
        read_head($_[0]) and print { $_[0] } "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /second\r\nContent-Length: 2\r\n\r\nok";
    },
    hint => sub {
        read_head($_[0]) or return;
        print { $_[0] } "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    },
);

my @single = ('ok', (map { "s$_" } @statuses), qw(flip not_modified accel hint));
my $upstreams = join '', map { "upstream $_ { labor; server %%ADDR_$_%% max_fails=0; }\n" } @single;
my $locations = join '', map { "location /$_ { proxy_pass http://$_; }\n" } @single;
my $logs = outcome_logs();
$t->conf(<<"EOC")->run;
    $logs
    proxy_cache_path %%DIR%%/cache keys_zone=c:1m;
    $upstreams
    upstream refused { labor; server %%DEAD%%; server %%ADDR_ok%% backup; }
    upstream dead { labor; server %%DEAD%%; }
    upstream retry { labor; server %%ADDR_s500%%; server %%ADDR_ok%% backup; }
    upstream retry404 { labor; server %%ADDR_s404%%; server %%ADDR_ok%% backup; }
    upstream listed { labor failure=404; server %%ADDR_s404%%; }
    upstream unlisted { labor failure=404; server %%ADDR_s500%%; }
    upstream plain { server %%ADDR_ok%%; }
    server {
        listen %%LISTEN%%;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        $locations
        location /none { return 200 x; }
        location /plain { proxy_pass http://plain; }
        location /dead { proxy_pass http://dead; }
        location /refused { proxy_pass http://refused; }
        location /retry500 { proxy_pass http://retry; proxy_next_upstream http_500; }
        location /retry404 { proxy_pass http://retry404; proxy_next_upstream http_404; }
        location /listed { proxy_pass http://listed; }
        location /unlisted { proxy_pass http://unlisted; }
        location /variable { proxy_pass http://\$arg_u; }
        location /second { internal; proxy_pass http://ok; }
        location \@named { proxy_pass http://ok; }
        location /page { proxy_pass http://s500; proxy_intercept_errors on; error_page 500 = /second; }
        location /page_named { proxy_pass http://dead; error_page 502 = \@named; }
        location /page_plain { proxy_pass http://s500; proxy_intercept_errors on; error_page 500 = /plain; }
        location /page_local { proxy_pass http://s500; proxy_intercept_errors on; error_page 500 /none; }
        location /cached { proxy_pass http://ok; proxy_cache c; proxy_cache_valid any 1h; }
        location /stale {
            proxy_pass http://flip;
            proxy_cache c;
            proxy_cache_valid 200 1s;
            proxy_cache_use_stale http_500;
        }
    }
EOC

my $time = qr/0\.\d{6}/;
sub get { my ($path, %with) = @_; return sub { $t->get($path, %with) } }
sub case { my ($name, $expected, $path, @more) = @_; check_outcome($t, $name, $expected, get($path), @more) }

case('an answer', 'pass/200', '/ok', qr/\|200\|$time\|$time\|/);
case('no upstream', '', '/none', qr/\|200(\|-){5}$/);
case('an upstream without labor', '', '/plain', qr/\|200(\|-){5}$/);
case("status $_", { 404 => 'refused/404', 501 => 'refused/501', 505 => 'refused/505' }->{$_} // "fail-status/$_", "/s$_")
    for @statuses;
case('404 in failure=', 'fail-status/404', '/listed');
case('500 not in failure=', 'refused/500', '/unlisted');
case('not modified', 'pass/304', '/not_modified');
check_outcome($t, 'HEAD', 'pass/200', sub { $t->http(HEAD => '/ok') });
check_outcome($t, 'HEAD, 500', 'fail-status/500', sub { $t->http(HEAD => '/s500') });
check_outcome($t, 'POST', 'pass/200', sub { $t->http(POST => '/ok', body => 'x' x 100) });
# nginx 1.30 knows interim answers; before, it takes the first header for the answer and what follows for its body.
my $interim = $t->nginx_version >= 1.029 ? 'pass/200' : 'pass/103';
case('early hints', $interim, '/hint', qr/\|$time\|$time\|/);
case('an upstream from a variable', 'pass/200', '/variable?u=ok');

case('refused, no other', 'fail-connect/0', '/dead', qr/\|502\|$time\|-\|/);
case('refused, then a backup', 'fail-connect/0 pass/200', '/refused', qr/\|200\|$time, $time\|-, $time\|.*, backup$/);
case('500 tried elsewhere', 'fail-status/500 pass/200', '/retry500', qr/\|200\|$time, $time\|$time, $time\|/);
case('404 tried elsewhere', 'refused/404 pass/200', '/retry404', qr/\|200\|$time, $time\|$time, $time\|/);

case('X-Accel-Redirect', 'pass/200 pass/200', '/accel', qr/\|200\|$time : $time\|$time : $time\|/);
case('error page from labor', 'fail-status/500 pass/200', '/page', qr/\|$time : $time\|/);
case('error page, named location', 'fail-connect/0 pass/200', '/page_named', qr/\|$time : $time\|/);
case('error page without labor', 'fail-status/500', '/page_plain', qr/\|$time : -\|$time : -\|/);
case('error page of nginx itself', 'fail-status/500', '/page_local', qr/\|$time\|$time\|/);

case('into the cache', 'pass/200', '/cached');
case('from the cache', '', '/cached', qr/\|200(\|-){5}$/);
case('a fresh answer', 'pass/200', '/stale', qr/\|200\|/);

# One second later the server is asked again.
my ($bad, $server) = (0);
eventually {
    $bad++ if $t->get('/stale')->status != 200;
    ($server) = $t->peers('flip');
    $server->{requests} > 1 && !$server->{connections};
} 'the cached answer expires';
is $bad, 0, 'then a stale answer stands in for a 500';
is $server->{failures}{status}, $server->{requests} - 1, 'which counts all the same' or diag explain $server;

$t->done;
