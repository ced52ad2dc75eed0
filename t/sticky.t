# `sticky` with labor (nginx 1.29.6): sessions stay with their server, also one that drains and so gets nothing else.
# fails without the sticky line (sessions move), and with `down` in place of `drain`.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
$t->needs('sticky');
$t->model(A => 'service=const:5ms', B => 'service=const:30ms', C => 'service=const:30ms');

sub conf {
    my ($a, @directives) = @_;
    my $method = join ' ', map { "$_;" } @directives;
    return <<"EOC";
    log_format v '\$uri;\$status;\$labor_reason';
    access_log %%DIR%%/access.log v;
    upstream u { zone u 256k; server %%ADDR_A%% $a; server %%ADDR_B%%; server %%ADDR_C%%; $method }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC
}

# A new session: the server and its cookie.
sub begin {
    my $answer = $t->get('/new');
    my ($cookie) = ($answer->header('Set-Cookie') // '') =~ /^(sid=[^;]+)/;
    return ($answer->header('X-Server') // $answer->status, $cookie);
}

# Who answers COUNT requests of a session, as {name => count}.
sub session {
    my ($cookie, $count) = @_;
    my %seen;
    $seen{ $_->header('X-Server') // $_->status }++ for map { $t->get('/session', headers => [Cookie => $cookie]) } 1 .. $count;
    return \%seen;
}

$t->conf(conf('', 'labor', 'sticky cookie sid'))->run;
my %cookie;
wait_for { my ($server, $cookie) = begin(); $cookie{$server} //= $cookie; keys %cookie == 3 };
is_deeply [sort keys %cookie], [qw(A B C)], 'a session with each server';
is_deeply session($cookie{$_}, 20), { $_ => 20 }, "the session of $_ stays, fast or slow" for qw(A B C);
my @reasons = map { (split /;/)[2] } grep { m{^/session;} } $t->lines('access.log', 60);
is scalar(grep { $_ ne 'sticky' } @reasons), 0, '$labor_reason is sticky' or diag explain \@reasons;
my $report = $t->load(rate => 100, requests => 300);
cmp_ok $report->{servers}{A}{share}, '>', 0.7, 'new sessions begin at the fastest' or diag explain $report->{servers};

# The server of a session fails: another answers, and the session comes back.
$t->close('B');
my $moved = session($cookie{B}, 3);
ok !$moved->{B} && !$moved->{502}, 'a session whose server is gone is answered elsewhere' or diag explain $moved;
$t->open('B');

# A drains: its sessions stay, and nothing else goes there, not even to find out how fast it is.
$t->conf(conf('drain', 'labor', 'sticky cookie sid'))->reload;
is_deeply session($cookie{A}, 20), { A => 20 }, 'the session of a draining server stays';
$t->reset('A');
$report = $t->load(rate => 100, requests => 400);
is $report->{statuses}{200}, 400, 'all answered';
is $t->stats('A')->{requests}, 0, 'a draining server gets nothing but its sessions' or diag explain $report->{servers};
# Failing servers are tried now and then; a draining one is not.
$t->set(A => 'status=503');
session($cookie{A}, 3);
$t->reset('A');
$t->load(rate => 100, requests => 700);
is $t->stats('A')->{requests}, 0, 'not even for a trial';
$t->set(A => 'status=200');
is_deeply session($cookie{A}, 5), { A => 5 }, 'and it keeps its sessions all the time';

# The other order, and keepalive around both.
for my $order (['sticky cookie sid', 'labor'], ['keepalive 4', 'sticky cookie sid', 'labor'], ['sticky cookie sid', 'labor', 'keepalive 4']) {
    $t->conf(conf('', @$order))->reload;
    is_deeply session($cookie{$_}, 8), { $_ => 8 }, "@$order: the session of $_ stays" for qw(A B C);
    my ($server, $cookie) = begin();
    is_deeply session($cookie, 5), { $server => 5 }, 'and so does a new one';
}

$t->done;
