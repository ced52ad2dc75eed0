# The status page in a real browser: what a person sees of a slow server, of a reload, of a lost connection; in any light, on any
# screen, and with names that are an attack.
use strict;
use warnings;
use Labor::Browser;
use Labor::Test;
use Labor::Util qw(spawn finish_child slurp);

plan skip_all => 'browser tests: ' . Labor::Browser::missing() if Labor::Browser::missing();

# A browser on a machine that is busy with other tests takes its time.
$Labor::Util::DEADLINE = 60 unless $ENV{LABOR_DEADLINE};

my %PHONE = (width => 360, height => 780);
my $evil = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>';

my $t = Labor::Test->new;
$t->model(map { $_ => 'service=exp:8ms' } qw(A B C D));
my $page = 'location = /labor { labor_status html; }';
my $http = sub {
    my ($location) = @_;
    my $quoted = $evil =~ s/"/\\"/gr;
    return <<"EOC";
    upstream app {
        zone app 256k;
        labor;
        server %%ADDR_A%%;
        server %%ADDR_B%%;
        server %%ADDR_C%%;
        server %%ADDR_D%%;
    }
    upstream "$quoted" {
        labor;
        server "unix:%%DIR%%/$quoted.sock";
        server %%ADDR_A%%;
    }
    server { listen %%LISTEN%%; $location location / { proxy_pass http://app; } }
EOC
};
$t->conf($http->($page))->run;

# Load for as long as the test takes; it ends with its process.
my $load = spawn($t->dir . '/load.out', $t->dir . '/load.err', Labor::Model::binary(), 'load', '--url', $t->url('/'), '--rate', 80,
    '--duration', '390s');
END {
    local $?;
    finish_child($load, 'TERM', 5) if $load;
}

my $browser = Labor::Browser->new($t->dir);
note 'Chromium ' . $browser->version;
my $shots = $ENV{LABOR_SHOTS} || $t->dir;
my $slow = '127.0.0.1:' . $t->port('C');

# value(EXPRESSION): in the page; row(ADDRESS): the words of a server's row in the upstream `app`.
my $section = q{[...document.querySelectorAll('section')].find((s) => s.querySelector('.title').textContent === 'app')};
sub value { my ($of) = @_; return $browser->value($of) }
sub row { my ($address) = @_; return value(qq{([...$section.querySelectorAll('.servers tbody tr')].find((r) => r.querySelector('.name').textContent === '$address') || {}).innerText || ''}) }
sub text { my ($selector) = @_; return value(qq{(document.querySelector('$selector') || {}).textContent || ''}) }

subtest 'loads' => sub {
    is $browser->open(url => $t->url('/labor')), 200, 'answered';
    eventually { row($slow) =~ /\b(?:up|slow)\b/ && row($slow) =~ /[\d.]+ ms/ } 'the table shows the server, its state and its latency';
    is value(qq{$section.querySelectorAll('.servers tbody tr').length}), 4, 'all servers of the upstream';
    is value(qq{$section.querySelectorAll('path.line[data-key]').length}), 4, 'each has its line';
    like value('document.title'), qr/labor/, 'titled';
    my $first = value(q{document.getElementById('facts').textContent});
    eventually { value(q{document.getElementById('facts').textContent}) ne $first } 'refreshes by itself';
};

subtest 'a slow server' => sub {
    # Slow enough to stand out from whatever a busy machine does to the others.
    $t->set(C => 'service=const:1500ms');
    my $before = time;
    eventually { row($slow) =~ /slow \d/ } 'the table calls it slow';
    note 'shown after ' . (time - $before) . ' s';
    eventually { value("$section.querySelector('.verdict').innerText") =~ /^\Q$slow\E answers in [\d.]+ ms where the faster ones take/m } 'and the headline';
    eventually { value('document.title') =~ /slow/ } 'and the title of the tab';
    # The highest end of a line, smallest y, is the slowest server.
    eventually {
        value(qq{(() => {
            const end = (p) => Number(p.getAttribute('d').split(' ').pop());
            const lines = [...$section.querySelectorAll('path.line[data-key]')].filter((p) => p.getAttribute('d'));
            return lines.sort((a, b) => end(a) - end(b))[0].dataset.key; })()}) =~ /\Q$slow\E/
    } 'and the plot';
    eventually {
        value(qq{$section.querySelectorAll('.frame')[0].focus()});
        $browser->press('ArrowLeft');
        text('.readout:not([hidden])') =~ /\Q$slow\E/;
    } 'the arrow keys read the plot';
    value(qq{$section.querySelectorAll('thead button')[2].click()});
    eventually { value(qq{$section.querySelector('.servers tbody .name').textContent}) eq $slow } 'sorted by latency it comes first';
    value(qq{$section.querySelector('.servers tbody .server').click()});
    eventually { text('.detail') =~ /Counts as[\d\s\w.]+ms/ } 'its score is explained';
    value(q{document.getElementById('failing').click()});
    eventually {
        row($slow) =~ /slow/ && value(qq{[...$section.querySelectorAll('.servers tbody tr:not(.detail)')].every((r) => !r.matches('.level0'))})
    } 'only what needs attention is shown: this one, no server that is well';
    value(q{document.getElementById('failing').click()});
    eventually { value(qq{$section.querySelectorAll('.servers tbody tr:not(.detail)').length}) == 4 } 'all of them again';
};

subtest 'attacks' => sub {
    my $names = JSON::PP->new->allow_nonref->encode($evil);
    ok value("[...document.querySelectorAll('.title')].some((n) => n.textContent === $names)"), 'the name of an upstream stands there as it is';
    is value(q{document.querySelectorAll('main img, main script, main b[onclick]').length}), 0, 'and made no element';
};

subtest 'light, dark, desktop, phone' => sub {
    for my $look ([light => ()], [dark => (dark => JSON::PP::true)], ['phone-light' => %PHONE], ['phone-dark' => (%PHONE, dark => JSON::PP::true)]) {
        my ($name, %with) = @$look;
        $browser->look(%with);
        eventually { value('document.documentElement.scrollWidth <= innerWidth') } "$name: nothing sticks out";
        my @faults = $browser->axe;
        ok !@faults, "$name: axe finds nothing" or diag join "\n", @faults;
        ok -s $browser->shot("$shots/$name.png"), "$name: a picture";
    }
    $browser->look;
};

my $said = $browser->said;
is_deeply $said->{problems}, [], 'no error, no warning, no dialog';
is_deeply $said->{foreign}, [], 'nobody else was asked for anything';

subtest 'what happens to nginx' => sub {
    $t->reload;
    eventually { text('#news') =~ /reloaded its configuration/ } 'a reload is told';
    my $first = text('#facts');
    eventually { text('#facts') ne $first && row($slow) =~ /slow/ } 'and the page goes on';
    # A connection that the old worker closed may be one: the page tells it and goes on.
    is_deeply [grep { !/Failed to load resource: net::/ } @{ $browser->said->{problems} }], [], 'without an error';

    $t->conf($http->('location = /labor { return 404; }'))->reload;
    eventually { text('#alarm') =~ /404/ } 'a location that is gone is told';
    ok row($slow), 'what was known stays';
    $t->conf($http->($page))->reload;
    eventually { value(q{document.getElementById('alarm').hidden}) && text('#news') =~ /answers again/ } 'it goes on when the location is back';

    $t->stop;
    eventually { text('#alarm') =~ /No connection/ } 'a lost connection is told';
    $t->run;
    eventually { value(q{document.getElementById('alarm').hidden}) } 'it goes on when nginx is back';
};

subtest 'without scripts' => sub {
    is $browser->open(url => $t->url('/labor'), scripts => JSON::PP::false), 200, 'answered';
    ok -s $browser->shot("$shots/plain.png"), 'a picture';
    is_deeply $browser->said, { requests => 1, foreign => [], problems => [] }, 'nothing but the page was asked for';
};

ok $browser->stop, 'the browser ends when asked to';
finish_child($load, 'TERM', 5);
undef $load;
$t->done;
