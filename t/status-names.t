# Hostile names of upstreams and servers: whatever they hold, JSON, metrics and the page stay what they are, and every name is
# there to be read.
use strict;
use warnings;
use Encode qw(decode encode FB_DEFAULT);
use Labor::Metrics;
use Labor::Schema;
use Labor::Test;

my $t = Labor::Test->new(workers => 1);
# Bytes as they stand in the configuration, and how they are shown: what is no UTF-8 as \xNN.
my %names = (
    quotes => [q(a"b'c), q(a"b'c)],
    tags => ['</script><script>alert(1)</script>', '</script><script>alert(1)</script>'],
    entity => ['&lt;img src=x onerror=alert(1)>', '&lt;img src=x onerror=alert(1)>'],
    separator => ["line\xe2\x80\xa8separator", "line\x{2028}separator"],
    newlines => ["new\nline\r\ttab", "new\nline\r\ttab"],
    backslash => ['back\\slash{}}', 'back\\slash{}}'],
    invalid => ["bad\xff\xc3(\xe2\x82", 'bad\\xff\\xc3(\\xe2\\x82'],
    control => ["esc\x1b[2J\x07\x7f", "esc\x1b[2J\x07\x7f"],
    umlaut => ["\xc3\xbcber", "\x{fc}ber"],
    long => ['n' x 255, 'n' x 255],
    spaces => ['  two  spaces  ', '  two  spaces  '],
);
sub quoted { return '"' . ($_[0] =~ s/(["\\])/\\$1/gr =~ s/\r/\\r/gr =~ s/\t/\\t/gr =~ s/\n/\\n/gr) . '"' }
# nginx allows the same in the path of a socket, of up to 107 bytes.
my %paths = map { $_ => $t->dir . '/' . substr($names{$_}[0], 0, 60) } keys %names;
my $upstreams = join '', map {
    'upstream ' . quoted($names{$_}[0]) . ' { labor; server ' . quoted("unix:$paths{$_}") . " max_fails=1 fail_timeout=100s; }\n"
} sort keys %names;
# Named ones as well, so that requests come to them and something happens there.
my $named = join '', map { "upstream $_ { labor; server " . quoted("unix:$paths{$_}") . " max_fails=1 fail_timeout=100s; server %%DEAD%%; }\n" } sort keys %names;
my $locations = join '', map { "location /$_ { proxy_pass http://$_; }\n" } sort keys %names;
$t->conf("$upstreams $named server { listen %%LISTEN%%; $locations location /labor { labor_status; } }")->run;
# nginx tells of every failure with the name as it is.
$t->allow(qr/connect\(\) to unix:/);

my $schema = Labor::Schema->new('docs/status.schema.json');
my $status = $t->status;
is_deeply [$schema->errors($status)], [], 'JSON as the schema describes it';
for my $name (sort keys %names) {
    my ($raw, $shown) = @{ $names{$name} };
    my $upstream = $status->{upstreams}{$shown};
    ok $upstream, "$name: the upstream is there" or next;
    my $path = substr $shown, 0, length($shown) > 60 ? 60 : length $shown;
    like $upstream->{peers}[0]{server}, qr/^unix:\Q${\ $t->dir}\E\//, "$name: so is its server";
    my $argument = join '', map { sprintf '%%%02x', ord } split //, $raw;
    is_deeply [keys %{ $t->status("upstream=$argument")->{upstreams} }], [$shown], "$name: and it can be asked for";
}
is scalar keys %{ $status->{upstreams} }, 2 * keys %names, 'no name was taken for another';

# Something happens to every server: events have its address, cut.
for my $name (sort keys %names) {
    is $t->get("/$name")->status, 502, "$name: nobody listens";
}
my %event;
eventually {
    $status = $t->status;
    for my $name (keys %names) {
        ($event{$name}) = grep { $_->{reason} eq 'unavail' && ($_->{server} // '') =~ /^unix:/ } @{ $status->{upstreams}{$name}{labor}{events} };
    }
    !grep { !$event{$_} } keys %names;
} 'every server has its event';
is_deeply [$schema->errors($status)], [], 'JSON with events as well';
for my $name (sort keys %names) {
    my ($peer) = $t->peers($name, $status);
    my $said = encode('UTF-8', $event{$name}{server} // '') =~ s/(?:\\x[0-9a-f]{2})+$//r;
    is index(encode('UTF-8', $peer->{server}), $said), 0, "$name: under its own address";
}

my $text = $t->get('/labor.prom')->body;
my ($metrics, $wrong) = Labor::Metrics::parse($text);
is_deeply $wrong, [], 'metrics keep their format' or diag join "\n", @$wrong;
is scalar @{ $metrics->{labor_server_weight}{samples} }, 3 * keys %names, 'a series for every server';
my %seen = map { decode('UTF-8', $_->{labels}{upstream}) => 1 } @{ $metrics->{labor_server_weight}{samples} };
ok $seen{ $names{$_}[1] }, "$_: named in a label" for sort keys %names;

my $page = $t->get('/labor.html')->body;
unlike $page, qr/<script>alert|<img/, 'no name becomes a part of the page';
like $page, qr/&lt;script&gt;alert/, 'it is there as text';

$t->done;
