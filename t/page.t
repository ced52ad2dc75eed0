# The status page as it is sent: headers, the policy and its hashes, its table without scripts, its weight, names that are an attack.
use strict;
use warnings;
use Digest::SHA qw(sha256_base64);
use Labor::Test;

my $evil = q{"><img src=x onerror='alert(1)'></script><!--&amp;};
my $long = 'x' x 255;
my $quoted = $evil =~ s/"/\\"/gr;

my $t = Labor::Test->new;
$t->model(A => '');
$t->conf(<<"EOC")->run;
    upstream app {
        labor;
        server %%ADDR_A%% weight=3;
        server %%DEAD%% backup;
    }
    upstream "$quoted" { labor; server "unix:%%DIR%%/$quoted" ; server %%ADDR_A%% down; }
    upstream "bytes\xff\xe2\x80\xa8" { labor; server %%ADDR_A%%; }
    upstream $long { labor; server %%ADDR_A%%; }
    server {
        listen %%LISTEN%%;
        location = /labor { labor_status html; }
        location = /data { labor_status json; }
        location /any { labor_status; }
        location = /utf8 { charset utf-8; labor_status html; }
        location / { proxy_pass http://app; }
    }
EOC
is $t->get('/')->status, 200, 'a request, so that something is known';

my $answer = $t->get('/labor');
my $page = $answer->body;
is $answer->status, 200, 'the page';
is $answer->header('Content-Type'), 'text/html; charset=utf-8', 'its type';
is $t->get('/utf8')->header('Content-Type'), 'text/html; charset=utf-8', 'a charset of the configuration is not added to it';
is $answer->header('Cache-Control'), 'no-store', 'not to be kept';
is $answer->header('X-Content-Type-Options'), 'nosniff', 'not to be guessed at';
is $answer->header('Referrer-Policy'), 'no-referrer', 'its address is told to nobody';
cmp_ok length $page, '<', 120_000, 'small';
note 'bytes: ' . length $page;

subtest 'policy' => sub {
    my %policy = map { split ' ', $_, 2 } split /; /, $answer->header('Content-Security-Policy');
    my ($style) = $page =~ m{<style>(.*?)</style>}s;
    my ($script) = $page =~ m{<script>(.*?)</script>}s;
    is_deeply \%policy, {
        'default-src' => q{'none'},
        'script-src' => "'sha256-" . sha256_base64($script) . "='",
        'style-src' => "'sha256-" . sha256_base64($style) . "='",
        'connect-src' => q{'self'},
        'img-src' => 'data:',
        'base-uri' => q{'none'},
        'form-action' => q{'none'},
        'frame-ancestors' => q{'none'},
    }, 'nothing but the script and style in the page, nobody but its own server';
    is scalar(() = $page =~ /<(?:script|style)\b/g), 2, 'one script and one style';
    is scalar(() = $page =~ /\s(?:style|on\w+)\s*=\s*["']/g), 0, 'no style and no script in attributes';
    my @addresses = grep { !m{^http://www\.w3\.org/} } $page =~ m{\bhttps?://[^\s'"]+}g;
    is_deeply \@addresses, [], 'no address but the name of the SVG language';
    unlike $script, qr/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, 'no way from text to elements';
};

subtest 'without scripts' => sub {
    my ($main) = $page =~ m{<main id="main">(.*)</main>}s;
    my $address = '127.0.0.1:' . $t->port('A');
    like $main, qr{<caption>Servers of app</caption>}, 'a table with a caption';
    is scalar(() = $main =~ /<th scope="col"/g), 40, 'headings of columns';
    like $main, qr{<tr[^>]*><th scope="row"[^>]*><span class="name server">\Q$address\E</span> <span class="note">weight 3</span></th>.*?>up<.*?\d ms.*?</tr>},
        'a server with what differs from the plain case, its state in a word, its latency';
    like $main, qr{<span class="note">backup</span>}, 'a backup';
    like $main, qr{>down</span>}, 'one that is down';
    like $main, qr{<span class="title">$long</span>}, 'a long name';
    like $main, qr{<span class="title">bytes\\xff\xe2\x80\xa8</span>}, 'bytes that are no text are spelt out';
    my $escaped = $evil =~ s/&/&amp;/gr =~ s/</&lt;/gr =~ s/>/&gt;/gr =~ s/"/&quot;/gr =~ s/'/&#39;/gr;
    like $main, qr{<span class="title">\Q$escaped\E</span>}, 'an upstream with an evil name';
    like $main, qr{<span class="name server">unix:[^<"']*\Q$escaped\E</span>}, 'a server with one';
    unlike $main, qr{<(?!/?(?:section|h2|span|div|p|table|caption|thead|tbody|tr|th|td)\b)}, 'no element but those of the table';
};

subtest 'HTTP' => sub {
    my $head = $t->http(HEAD => '/labor');
    is $head->status, 200, 'HEAD';
    is $head->body, '', 'without a body';
    my $post = $t->http(POST => '/labor', body => 'x');
    is $post->status, 405, 'nothing can be sent to it';
    my $one = $t->get('/labor?upstream=app')->body;
    is scalar(() = $one =~ /<section>/g), 1, 'one upstream by name';
    my $reflected = $t->get('/labor?upstream=%3Cb%3E&x=%3Cb%3E')->body;
    unlike $reflected, qr/<b>/, 'nothing of the request is shown';
    my $data = $t->get('/labor?history=1', headers => [Accept => 'application/json']);
    is $data->header('Content-Type'), 'application/json', 'its script finds the data at the same address';
};

subtest 'formats' => sub {
    my $browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8';
    my @cases = (
        # path, Accept, page?
        ['/any', undef, 0], ['/any', '*/*', 0], ['/any', $browser, 1], ['/any', 'application/json', 0],
        ['/any', 'text/html;q=0.1, application/json', 0], ['/any', 'application/json;q=0.1, text/*', 1],
        ['/any', 'application/json, text/html', 1], ['/any', 'text/html;q=0', 0], ['/any', 'TEXT/HTML', 1], ['/any', 'nonsense;;q=x,', 0],
        ['/any.json', $browser, 0], ['/any/x.html', 'application/json', 1], ['/any/x.html', undef, 1],
        ['/data', $browser, 0], ['/data', undef, 0],
        ['/labor', undef, 1], ['/labor', '*/*', 1], ['/labor', $browser, 1], ['/labor', 'application/json', 0],
        ['/labor', 'application/json, */*;q=0.1', 0],
    );
    for my $case (@cases) {
        my ($path, $accept, $html) = @$case;
        my $type = $t->get($path, headers => defined $accept ? [Accept => $accept] : [])->header('Content-Type');
        is $type, $html ? 'text/html; charset=utf-8' : 'application/json', "$path for " . ($accept // 'nobody in particular');
    }
};

$t->done;
