# O41: one server beside others that are `down`: it is always tried, an error does not take it out for ten seconds.
# fails when the server is closed for good (the same 502); nginx before 1.19.6 failed without labor.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => '', C => '');
$t->conf(<<'EOC')->run;
    upstream down { labor; server %%ADDR_A%%; server %%ADDR_B%% down; }
    upstream zoned { zone zoned 128k; labor; server %%ADDR_A%%; server %%ADDR_B%% down; }
    upstream single { labor; server %%ADDR_A%%; }
    upstream pair { labor; server %%ADDR_A%%; server %%ADDR_C%%; }
    server {
        listen %%LISTEN%%;
        location /down { proxy_pass http://down; }
        location /zoned { proxy_pass http://zoned; }
        location /single { proxy_pass http://single; }
        location /pair { proxy_pass http://pair; }
    }
EOC

for my $path (qw(/down /zoned /single)) {
    $t->close('A');
    is $t->get($path)->status, 502, "$path: the only server is gone: 502" for 1 .. 3;
    $t->open('A');
    is_deeply $t->servers(5, $path), { A => 5 }, "$path: it is tried, and serves at once";
}

# Both counted out is no reason for an error either.
$t->close('A', 'C');
is $t->get('/pair')->status, 502, 'two servers, both gone: 502' for 1 .. 2;
$t->open('A', 'C');
is $t->get('/pair')->status, 200, 'both counted out, one is tried';

$t->done;
