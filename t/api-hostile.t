# labor_api with names that want to be more than names: no line of the log, no answer and no state file is anything but what
# it was meant to be, and the state survives a restart under every name.

use strict;
use warnings;

use Labor::Api;
use Labor::Test;
use Labor::Util qw(slurp);

my $t = Labor::Test->new(reload => 0);
$t->model(A => 'service=const:1ms');
mkdir $t->dir . '/state';
# As nginx reads them: a backslash before a quote, and \n for a line feed.
my @names = (
    'a\"b', '</script><script>alert(1)</script>', 'line\nfeed [warn] 1#1: no', "tab\\tand\e[31m", "u\xe2\x80\xa8u", "bad\xff\xfe",
    'a=b end 1 0123', '%41%', 'x' x 200, '..', 'servers/servers',
);
my @plain = map { s/\\(.)/ { n => "\n", t => "\t" }->{$1} \/\/ $1 /ger } @names;
my $upstreams = join '', map { qq(    upstream "$_" { labor; server %%ADDR_A%%; }\n) } @names;
my $conf = "labor_state %%DIR%%/state/labor;\n$upstreams" . Labor::Api::server();
$t->conf($conf)->run;
my $api = Labor::Api->new($t);
sub path { my ($name) = @_; return '/upstreams/' . ($name =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02X', ord $1/ger =~ s/^\.\.$/%2E%2E/r) }

my @usable = grep { $_ ne '..' } @plain;
for my $name (@usable) {
    my ($status, $json) = $api->patch(path($name) . '/servers/0', { weight => 5, state => 'drain' });
    is $status, 200, 'changed: ' . $name =~ s/[^ -~]/?/gr;
    is $json->{state}, 'drain', '… and answered as JSON';
}
my ($status, $json, $answer) = $api->get('/upstreams');
is scalar keys %$json, scalar @names, 'every name is one in the answer';
ok !grep({ $_->{peers}[0]{weight} != 5 } map { $json->{$_} } grep { $_ ne '..' } keys %$json), 'with what was set';
my @lines = grep { /labor: api: PATCH/ } split /\n/, $t->error_log;
is scalar @lines, scalar @usable, 'one line of the log for each change';
ok !grep({ !m{^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[} } split /\n/, $t->error_log), 'and no line that nobody wrote';
ok !grep({ / upstream ".*?[^ -~].*?", server/ } @lines), 'names in it are plain text';
like slurp($t->dir . '/state/labor'), qr/\Alabor-state 1\n(?:server [!-~ ]+\n){10}end 10 [0-9a-f]{16}\n\z/, 'the state file is plain, too';
$t->stop;
$t->run;
is [$api->get(path($_) . '/servers/0')]->[1]{labor}{weight}{source}, 'state_file', 'kept: ' . s/[^ -~]/?/gr for @usable;
my ($bad) = $api->patch('/upstreams/%00%0a%22/servers/0', '{"weight":1}');
ok $bad == 404 || $bad == 400, 'a name of nothing but trouble';
($status, $json) = $api->patch(path($usable[0]) . '/servers/%22%3C%0A', '{"weight":1}');
is Labor::Api::code($status, $json), '404 UpstreamServerNotFound', 'an id of that kind';
$t->done;
