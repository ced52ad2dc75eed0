# O40: three early errors under fail_timeout=10000s must not retire a server for hours; neither for GET nor for POST.
# fails with policy=round_robin (no trials: nginx's own max_fails keeps it out).
use strict;
use warnings;
use Labor::Test;
use Time::HiRes qw(time);

my $t = Labor::Test->new;
my @methods = qw(GET POST);
$t->model(map { ("A$_" => 'service=const:5ms', "B$_" => 'service=const:30ms') } @methods);
my $upstreams = join '', map {
    "upstream $_ { labor; server %%ADDR_A$_%% max_fails=3 fail_timeout=10000s; server %%ADDR_B$_%%; }\n"
} @methods;
my $locations = join '', map { "location /$_ { proxy_pass http://$_; proxy_next_upstream error timeout non_idempotent; }\n" } @methods;
$t->conf("$upstreams server { listen %%LISTEN%%; $locations }")->run;

sub both { return map { $t->http($_ => "/$_", $_ eq 'POST' ? (body => 'x') : ()) } @methods }
sub server_a { return ($t->peers($_[0]))[0] }

# Of eight requests at once about four go to A, which resets them; nobody sees it, as B answers then. Not exactly four, nor
# exactly three of six: a worker counts a request when it has picked, so that workers which pick at the same moment take the
# same server to be the emptier one.
my $bad = 0;
for my $method (@methods) {
    $t->set("A$method" => 'reset=header');
    my @answers = $t->burst(8, "/$method", $method eq 'POST' ? (body => 'x') : ());
    $bad += grep { !$_ || $_->status != 200 } @answers;
    cmp_ok server_a($method)->{failures}{reset}, '>=', 3, "$method: A has failed at least three times";
}
$t->set("A$_" => 'reset=none') for @methods;
my $well = time;

# Nothing but its own requests for each, as fast as one client sends them.
my (%back, %recent);
until (keys %back == @methods || time > $well + 60) {
    for my $answer (both()) {
        $bad++ if $answer->status != 200;
        my ($server, $method) = ($answer->header('X-Server') // '') =~ /^(.)(.*)/ or next;
        $recent{$method} = $server eq 'A' ? ($recent{$method} // 0) + 1 : 0;
        $back{$method} //= time - $well if $recent{$method} >= 10;
    }
}
for my $method (@methods) {
    ok defined $back{$method}, "$method: A has all requests again within a minute" or diag explain server_a($method);
}
is $bad, 0, 'no error was seen by a client';
diag join ', ', map { sprintf '%s: back after %.1f s', $_, $back{$_} } sort keys %back;

$t->done;
