# labor_api and labor_state in the configuration: what is refused, and which locations draw a warning because anybody may
# change things through them.

use strict;
use warnings;

use Labor::Test;
use Labor::Util qw(spill);

my $t = Labor::Test->new;
my $upstream = 'upstream u { labor; server 127.0.0.1:1; }';

# The configuration of one server, or of whatever stands there.
sub said { my ($server, %with) = @_; return [$t->config_test("$upstream\n$server", %with)] }

my $warning = qr/\[warn\].*"labor_api write=on" without "allow" and "deny".*in \S+check\.conf:\d+/;
my $open = 'listen 127.0.0.1:%%PORT%%;';
my $local = 'listen unix:%%DIR%%/door.sock;';
for my $case (
    ['nothing in front of it', "$open location / { labor_api write=on; }", 1],
    ['a unix socket and a port', "$local $open location / { labor_api write=on; }", 1],
    ['an empty auth_basic', "$open auth_basic off; location / { labor_api write=on; }", 1],
    ['limit_except of other methods', "$open location / { labor_api write=on; limit_except GET PATCH DELETE { deny all; } }", 1],
    ['read-only', "$open location / { labor_api; }", 0],
    ['write=off', "$open location / { labor_api write=off; }", 0],
    ['allow and deny', "$open location / { labor_api write=on; allow 127.0.0.1; deny all; }", 0],
    ['inherited rules', "$open allow 127.0.0.1; deny all; location / { labor_api write=on; }", 0],
    ['rules for IPv6 only', "$open allow ::1; location / { labor_api write=on; }", 0],
    ['rules for unix sockets only', "$open deny unix:; location / { labor_api write=on; }", 0],
    ['a password', "$open location / { labor_api write=on; auth_basic x; auth_basic_user_file %%DIR%%/users; }", 0],
    ['an inherited password', "$open auth_basic x; auth_basic_user_file %%DIR%%/users; location / { labor_api write=on; }", 0],
    ['limit_except', "$open location / { labor_api write=on; limit_except GET { deny all; } }", 0],
    ['unix sockets only', "$local listen unix:%%DIR%%/other.sock; location / { labor_api write=on; }", 0],
) {
    my ($name, $server, $expected) = @$case;
    my ($good, $text) = @{ said("server { $server }") };
    ok $good, "$name: accepted" or diag $text;
    if ($expected) { like $text, $warning, '… with a warning that names file and line' }
    else { unlike $text, qr/labor_api/, '… without a word' }
}
my $count = () = said("server { $open location / { labor_api write=on; } location /b { labor_api write=on; } }")->[1] =~ /without "allow"/g;
is $count, 2, 'one warning for each location';

for my $case (
    ['labor_api write=yes;', qr/invalid parameter "write=yes", it must be "write=on" or "write=off"/],
    ['labor_api write=on on;', qr/invalid number of arguments/],
    ['labor_api; labor_api;', qr/is duplicate/],
    ['labor_status; labor_api;', qr/"labor_api" must be the only handler of its location, remove/],
    ['labor_api; labor_status;', qr/"labor_status" must be the only handler of its location, remove/],
    ['labor_status; labor_status json;', qr/is duplicate/],
    ['proxy_pass http://u; labor_status;', qr/"labor_status" must be the only handler/],
    ['labor_status; proxy_pass http://u;', qr/\[emerg\].*"labor_status" has no effect because another .* in \S+check\.conf:\d+/],
    ['labor_api; proxy_pass http://u;', qr/\[emerg\].*"labor_api" has no effect because another/],
) {
    my ($words, $expected) = @$case;
    my ($good, $text) = @{ said("server { $open location / { $words } }") };
    ok !$good, "refused: $words";
    like $text, $expected, '… with the reason';
}
for my $location ('~ ^/api/', '~* ^/api/', '@api') {
    my ($good, $text) = @{ said("server { $open location $location { labor_api; } }") };
    ok !$good, "refused: labor_api in location $location";
    like $text, qr/"labor_api" cannot be in a location given by regular expression or in a named location.*"location \/api\/"/,
        '… with the reason';
    ($good, $text) = @{ said("server { $open location $location { labor_status; } }") };
    ok $good, 'labor_status can be there' or diag $text;
}
for my $case (
    ['labor_state %%DIR%%/no/state;', qr/must be a file in a directory that exists/],
    ['labor_state %%DIR%%;', qr/must be a file/],
    ['labor_state %%DIR%%/;', qr/no name of a file/],
    ['labor_state %%DIR%%/a; labor_state %%DIR%%/b;', qr/is duplicate/],
) {
    my ($words, $expected) = @$case;
    my ($good, $text) = @{ said($words) };
    ok !$good, "refused: $words";
    like $text, $expected, '… with the reason';
}
my ($good, $text) = @{ said('labor_state %%DIR%%/state;') };
ok $good, 'a state file that is not there yet';
unlike $text, qr/state file/, '… is not worth a word';
SKIP: {
    skip 'only root can let workers run as somebody else', 6 if $> != 0;
    mkdir $t->dir . "/$_" for qw(theirs roots);
    my ($uid, $gid) = (getpwnam 'nobody')[2, 3];
    chown $uid, $gid, $t->dir . '/theirs';
    my $nobody = 'nobody ' . getgrgid $gid;
    for my $case (['roots', $nobody, 1], ['roots', 'root', 0], ['theirs', $nobody, 0]) {
        my ($directory, $user, $expected) = @$case;
        ($good, $text) = @{ said("labor_state %%DIR%%/$directory/state;", user => $user) };
        ok $good, "a state file in a directory of $directory, workers of $user";
        my $warning = qr/\[warn\].*"\S+\/$directory\/state" cannot be kept: workers run as "nobody".*"chown nobody \S+"/;
        if ($expected) { like $text, $warning, '… of which is warned' }
        else { unlike $text, qr/cannot be kept/, '… without a word' }
    }
}
spill($t->dir . '/state', "labor-state 1\nserver what\nend 1 0000000000000000\n");
($good, $text) = @{ said('labor_state %%DIR%%/state;') };
ok $good, 'a damaged one does not keep nginx from starting';
like $text, qr/\[warn\].*state file "\S+\/state" is ignored: its checksum is wrong/, '… and is reported';
$t->done;
