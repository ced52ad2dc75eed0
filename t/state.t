# labor_state: what is set survives a restart; a file that is damaged does no harm; many writers lose nothing.

use strict;
use warnings;

use Labor::Api;
use Labor::Test;
use POSIX ();
use Labor::Util qw(slurp spill);

my $t = Labor::Test->new(workers => 4, reload => 0);
$t->model(A => 'service=const:1ms', B => 'service=const:1ms');
mkdir $t->dir . '/state';
my $file = $t->dir . '/state/labor';
my @servers = map { "        server %%ADDR_A%% weight=$_;" } 1 .. 12;
sub conf {
    my ($metric, @more) = @_;
    local $" = "\n";
    return $t->conf(<<"EOC" . Labor::Api::server());
    labor_state %%DIR%%/state/labor;
    upstream u { labor$metric; server %%ADDR_A%%; server %%ADDR_B%% backup; @more }
    upstream "many \\"x\\"" {
@servers
        labor;
    }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC
}
conf('')->run;
my $api = Labor::Api->new($t);
my ($a, $b) = map { "/upstreams/u/servers/127.0.0.1:" . $t->port($_) } qw(A B);
sub of { my ($path) = @_; return [$api->get($path)]->[1] }
sub restart { ok $t->stop, 'nginx stops'; $t->run; return }

# ---- over a restart

ok !-e $file, 'no file before the first change';
is [$api->patch($a, { state => 'down', max_conns => 5 })]->[0], 200, 'a server down';
is [$api->patch($b, { weight => 7 })]->[0], 200, 'a backup server heavier';
like slurp($file), qr/\Alabor-state 1\n(?:server [^\n]*\n){2}end 2 [0-9a-f]{16}\n\z/, 'both are in the file as soon as they are answered';
is sprintf('%o', (stat $file)[2] & 0777), '640', 'which is nobody else\'s business';
ok !-e "$file.tmp", 'and nothing is left beside it';
restart();
is_deeply of($a)->{labor}{state}, { effective => 'down', configured => 'up', source => 'state_file' }, 'down after a restart, from the file';
is of($a)->{labor}{max_conns}{effective}, 5, 'all of it';
is_deeply of($b)->{labor}{weight}, { effective => 7, configured => 1, source => 'state_file' }, 'the backup server, too';
is_deeply $t->servers(8), { B => 8 }, 'it holds for the first request';
is $t->status->{upstreams}{u}{peers}[0]{labor}{state_source}, 'state_file', 'the status says so';

# The running state wins over the file, and a reload changes nothing.
is [$api->patch($a, { state => 'drain' })]->[0], 200, 'changed again';
is of($a)->{labor}{state}{source}, 'api', 'now by the interface';
is of($a)->{labor}{max_conns}{source}, 'state_file', 'the other field still from the file';
$t->reload;
is_deeply [map { $_->{effective}, $_->{source} } @{ of($a)->{labor} }{qw(state max_conns)}], [drain => 'api', 5 => 'state_file'],
    'a reload reads nothing back from the file';
conf(' header');
$t->reload;
is of($a)->{state}, 'drain', 'what is set survives another metric';
is [$api->patch($a, { state => 'down' })]->[0], 200, 'set there';
conf('');
$t->reload;
is of($a)->{state}, 'down', 'and comes back with it, not with the old value';

conf('', '} labor_zone 4m; upstream other { labor; server %%ADDR_B%%;');
$t->reload;
is_deeply of($a)->{labor}{state}, { effective => 'down', configured => 'up', source => 'api' }, 'nor does other shared memory lose it';
is_deeply $t->servers(4), { B => 4 }, 'or forget to obey it';
conf('');
$t->reload;
eventually { [$api->patch($a, { state => 'drain' })]->[0] == 200 } 'and it can be changed there';
is [$api->patch($a, { state => 'down' })]->[0], 200, 'and back';

# ---- many writers

my $many = '/upstreams/many%20%22x%22/servers';
my (@pids, $failed);
for my $i (0 .. 11) {
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        my ($status) = $api->patch("$many/$i", { weight => 100 + $i });
        require POSIX;
        POSIX::_exit($status == 200 ? 0 : 1);
    }
    push @pids, $pid;
}
for (@pids) { waitpid $_, 0; $failed++ if $? }
ok !$failed, 'twelve changes at the same time, all answered';
restart();
is_deeply [map { $_->{weight} } @{ of($many) }], [100 .. 111], 'all twelve are there after a restart';

# ---- servers that go

conf('', "server 127.0.0.1:9;");
$t->reload;
is [$api->patch('/upstreams/u/servers/127.0.0.1:9', { state => 'down' })]->[0], 200, 'another server';
like slurp($file), qr/name=127\.0\.0\.1:9 /, 'is in the file';
conf('');
$t->reload;
is [$api->patch($a, { state => undef, max_conns => undef })]->[0], 200, 'when it is gone from the configuration';
unlike slurp($file), qr/name=127\.0\.0\.1:9 /, 'the next change drops it';
unlike slurp($file), qr/state=down/, 'and what is not set any more';

# ---- damage

ok $t->stop, 'nginx stops';
my $good = slurp($file);
spill($file, $good =~ s/weight=7/weight=8/r);
$t->run;
like $t->error_log, qr/\[warn\].*state file "\Q$file\E" is ignored: its checksum is wrong/, 'an edited file is reported';
is of($b)->{weight}, 1, 'and ignored: as configured';
is [$api->patch($b, { weight => 3 })]->[0], 200, 'a change';
like slurp($file), qr/\Alabor-state 1\nserver [^\n]* weight=3\nend 1 /, 'makes a good one of it';
like slurp("$file.damaged"), qr/weight=8/, 'and keeps the damaged one';

# Whatever cannot be read may be good, and stays where it is.
unlink "$file.damaged";
for my $case (['a pipe', sub { POSIX::mkfifo($file, 0600) }, 'it is no regular file'], ['a loop of links', sub { symlink $file, $file }, 'cannot read']) {
    my ($what, $make, $why) = @$case;
    rename $file, "$file.good";
    $make->() or die "$what: $!";
    my ($status, $json) = $api->patch($b, { weight => 4 });
    is $status, 500, "$what in its place: not kept";
    like $json->{error}{text}, qr/$why/, '… because of that';
    ok lstat($file) && !-f _ && !-e "$file.damaged", '… and it is still there';
    unlink $file;
    rename "$file.good", $file;
}
is +($api->patch($b, { weight => 3 }))[0], 200, 'and then it is kept again';

# ---- no room

ok $t->stop, 'nginx stops';
unlink glob $t->dir . '/state/*';
$t->run;
my $elsewhere = $t->dir . '/elsewhere';
rename $t->dir . '/state', $elsewhere;
my ($status, $json) = $api->patch($b, { weight => 4 });
is Labor::Api::code($status, $json), '500 StateNotSaved', 'the directory is gone: not saved, and said so';
like $json->{error}{text}, qr/in effect, but not saved.*cannot open/, '… with the reason';
is of($b)->{weight}, 4, '… in effect all the same';
rename $elsewhere, $t->dir . '/state';
eventually { slurp($file) =~ /weight=4/ } 'saved within seconds once that is possible again';
$t->done;
