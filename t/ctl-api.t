# labor-ctl changes servers of a real nginx, over a unix socket, and nginx obeys.
use strict;
use warnings;
use File::Basename ();
use Labor::Test;
use Labor::Util qw(slurp spawn finish_child);

my $ctl = $ENV{LABOR_CTL} || File::Basename::dirname(__FILE__) . '/../build/labor-ctl';
my $t = Labor::Test->new;
$t->model(A => '', B => '');
my $name = 'we ird"/<b>';
$t->conf(<<'EOC' =~ s/NAME/$name =~ s{"}{\\"}gr/gre)->run;
    upstream app { zone app 128k; labor; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream "NAME" { zone other 128k; labor; server %%ADDR_A%%; server %%ADDR_A%% backup; }
    server { listen %%LISTEN%%; location / { proxy_pass http://app; } location /read/ { labor_api; } }
    server { listen unix:%%DIR%%/api.sock; location /api/ { labor_api write=on; } location /labor { labor_status; } }
EOC

my ($first, $second) = map { $t->expand("%%ADDR_${_}%%") } qw(A B);
my $socket = 'unix:' . $t->dir . '/api.sock:';

# ctl(ARGUMENTS): exit status (undef when it does not end), standard output, standard error.
sub ctl {
    my (@arguments) = @_;
    my ($out, $err) = map { $t->dir . "/ctl.$_" } qw(out err);
    unlink $out, $err;
    local @ENV{qw(LABOR_STATUS LABOR_API)} = ("$socket/labor", "$socket/api/");
    my $pid = spawn($out, $err, $ctl, @arguments);
    my $ended = finish_child($pid, undef, 30);
    return ($ended ? $? >> 8 : undef, slurp($out), slurp($err));
}

# What is set at run time is told once a second, and two changes within one as the last.
sub told {
    my ($expected, $name) = @_;
    eventually { (ctl('events', 'app'))[1] =~ $expected } $name or diag((ctl('events', 'app'))[1]);
}

# done(ARGUMENTS, EXPECTED): a change that works, and what is said of it.
sub done {
    my ($said, @arguments) = @_;
    my ($code, $out, $err) = ctl(@arguments);
    is "$code$err", '0', "@arguments";
    is $out, "$said\n", '… and what it says';
}

# What is set before anybody has looked is how things were from the start, and no event.
eventually { defined $t->status->{upstreams}{app}{peers}[1]{labor}{state_since} } 'somebody has looked';
done("app $second: drain (api, configured up), was up", 'drain', $second);
is_deeply $t->servers(20), { A => 20 }, 'drained: no request in twenty';
told(qr/ app \Q$second\E  drain/, 'it is an event');
done("app $second: down (api, configured up), was drain (api, configured up)", 'down', $second);
my ($code, $out) = ctl('status', 'app');
like $out, qr/^  \Q$second\E +down/m, 'the status says so';
like $out, qr/1 of 2 servers usable/, '… and how many are left';
told(qr/ app \Q$second\E  drain.* app \Q$second\E  down/s, 'events in their order');
done("app $first: down (api, configured up), was up", 'down', $first, '--upstream', 'app');
done("app $second: up (api, configured up), was down (api, configured up)", 'up', $second);
is_deeply $t->servers(20), { B => 20 }, 'the other way round';
done("app $first: weight 7 (api, configured 1), was weight 1", 'weight', $first, 7, '-u', 'app');
done("app $first: max_conns 3 (api, configured no limit), was max_conns no limit", 'max-conns', $first, 3, '-u', 'app');
($code, $out) = ctl('status', 'app', '--sort', 'server');
like $out, qr/^  \Q$first\E .* 7 \(api, configured 1\) /m, 'the status says whose weight that is';
done("app $first: weight 1, was weight 7 (api, configured 1)", 'weight', $first, 'default', '-u', 'app');
done("app $first: up, weight 1, max_conns no limit, "
    . 'was down (api, configured up), weight 1, max_conns 3 (api, configured no limit)', 'clear', $first, '-u', 'app');

($code, $out, my $err) = ctl('drain', $first);
is $code, 4, 'an address in two upstreams, and twice in one of them';
like $err, qr/app \Q$first\E\n +\Q$name\E \Q$first\E \(number 0\)\n +\Q$name\E \Q$first\E \(number 1\)/, '… which they are';
done("$name $first (number 1): drain (api, configured up), was up", 'drain', 1, '--upstream', $name);
($code, $out) = ctl('drain', $first, '--all', '--upstream', $name);
is $code, 0, 'all of them';
is scalar(() = $out =~ /: drain \(api/g), 2, '… one line each';

done("$name: statistics and learning reset", 'reset', $name);
($code, $out, $err) = ctl('reset', 'none');
is $code, 5, 'an upstream that is not there';
($code, $out, $err) = ctl('weight', $second, 5, '--api', $t->url('/read/'));
is $code, 1, 'a location that only reads';
like $err, qr/405.*hint:.*write=on/s, '… and what to do';

$t->done;
