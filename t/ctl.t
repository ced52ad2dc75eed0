# labor-ctl with a real nginx: the status over both ways, who is slow, hostile names, what refuses.
use strict;
use warnings;
use File::Basename ();
use Labor::Test;
use Labor::Util qw(slurp spawn finish_child);

my $ctl = $ENV{LABOR_CTL} || File::Basename::dirname(__FILE__) . '/../build/labor-ctl';
my $t = Labor::Test->new;
$t->model(A => 'service=const:5ms', B => 'service=const:200ms');
my $evil = "we\x1b]0;x\x07ird\xff\xe2\x80\xa8<b>";
$t->conf(<<"EOC")->run;
    upstream app { zone app 128k; labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream other { zone other 128k; labor; server %%ADDR_A%%; server %%DEAD%% backup; }
    upstream "$evil" { labor; server %%ADDR_B%%; }
    server { listen %%LISTEN%%; location / { proxy_pass http://app; } location /denied { deny all; labor_status; } }
    server { listen unix:%%DIR%%/status.sock; location /labor { labor_status; } }
EOC

my ($slow, $fast) = map { $t->expand("%%ADDR_${_}%%") } qw(B A);
my $socket = 'unix:' . $t->dir . '/status.sock:/labor';
my $http = 'http://127.0.0.1:' . $t->port('_STATUS') . '/';

# ctl(ARGUMENTS): exit status, standard output, standard error.
sub ctl {
    my (@arguments) = @_;
    my ($out, $err) = map { $t->dir . "/ctl.$_" } qw(out err);
    unlink $out, $err;
    delete local @ENV{qw(LABOR_STATUS LABOR_API)};
    my $pid = spawn($out, $err, $ctl, @arguments);
    ok finish_child($pid, undef, 30), 'it ends' or diag "labor-ctl @arguments";
    return ($? >> 8, slurp($out), slurp($err));
}

$t->load(rate => 100, requests => 300);
for my $url ($socket, $http) {
    my ($code, $out, $err) = ctl('status', '--url', $url);
    is "$code$err", '0', "status over $url" or next;
    like $out, qr/^app  fastest, last byte  2 of 2 servers usable$/m, 'the upstream';
    like $out, qr/^  \Q$fast\E +up .*fastest/m, 'the fast server';
    like $out, qr{^  \Q$slow\E +[a-z].* (?:\d\d\d ms|\d\.\d\d s) }m, 'the slow one, as slow as it is';
    like $out, qr/^we\\u\{1b\}\]0;x\\u\{7\}ird.*<b>  fastest/m, 'a hostile name is shown';
    unlike $out, qr/[\x00-\x09\x0b-\x1f\x7f]|\xe2\x80\xa8/, '… and harmless';
}

my ($code, $out, $err) = ctl('status', 'app', '--sort', 'latency', '--url', $socket);
like $out, qr/\A[^\n]*\n[^\n]*\n  \Q$slow\E/, 'the slow one first, by latency';
unlike $out, qr/^other/m, 'only the upstream that was asked for';

($code, $out) = ctl('status', 'app', '--json', '--url', $socket);
my $json = eval { JSON::PP::decode_json($out) };
is_deeply [sort keys %{ $json->{upstreams} || {} }], ['app'], 'the same as JSON';

($code, $out, $err) = ctl('status', 'none', '--url', $socket);
is $code, 5, 'an upstream that is not there';
like $err, qr/there are: .*app.*other/s, '… and which there are';

($code, $out, $err) = ctl('top', 'app', '--count', 2, '--interval', '10ms', '--url', $http);
is "$code$err", '0', 'top into a pipe';
is scalar(() = $out =~ /\Q$slow\E/g), 2, '… is page after page';

($code, $out, $err) = ctl('events', '--url', $socket);
is "$code$err", '0', 'events';

($code, $out, $err) = ctl('status', '--url', $t->url('/denied'));
is $code, 1, 'refused';
like $err, qr/403.*hint: allow and deny/s, '… and why';
($code, $out, $err) = ctl('status', '--url', $t->url('/'));
is $code, 6, 'a back end is not labor';
($code, $out, $err) = ctl('status', '--url', 'http://' . $t->expand('%%DEAD%%') . '/');
is $code, 3, 'nobody there';
like $err, qr/hint: does nginx run/, '… and what to look at';

$t->done;
