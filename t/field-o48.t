# O48: streams are judged by their header, slow clients by nothing, and a full server gives way to the next best.
# fails with last_byte in place of header (B wins), with a model server that is slow itself (chunk_delay) in place of slow
# clients, and without the third server.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(
    A => 'service=const:5ms,chunk_delay=5s,body=4k', B => 'service=const:50ms',
    C => 'service=const:5ms,body=1m', D => 'service=const:40ms,body=1m',
    E => 'service=const:100ms', F => 'service=const:100ms', G => 'service=const:200ms',
);
my $zone = 'zone full 128k;';
$t->conf(<<"EOC")->run;
    upstream stream { labor header; server %%ADDR_A%%; server %%ADDR_B%%; }
    upstream large { labor; server %%ADDR_C%%; server %%ADDR_D%%; }
    upstream full { $zone labor; server %%ADDR_E%% max_conns=2; server %%ADDR_F%% max_conns=2; server %%ADDR_G%%; }
    server {
        listen %%LISTEN%%;
        location /stream { proxy_pass http://stream; proxy_buffering off; }
        # Room for a whole answer: no client is slow here.
        location /large { proxy_pass http://large; proxy_buffers 32 64k; }
        location /full { proxy_pass http://full; }
    }
    # And little room here.
    server {
        listen 127.0.0.1:%%PORT_slow%% sndbuf=32k;
        location / { proxy_pass http://large; proxy_max_temp_file_size 0; }
    }
EOC

my $report = $t->load(path => '/stream', rate => 30, requests => 90);
is $report->{statuses}{200}, 90, 'streams: all answered' or diag explain $report;
cmp_ok $report->{servers}{A}{share}, '>', 0.8, 'the server that begins soonest has the streams' or diag explain $report->{servers};

# C is known to be fast; then its clients read slowly; and it stays the best.
$t->load(path => '/large', concurrency => 2, requests => 60);
my $slow = 'http://127.0.0.1:' . $t->port('slow') . '/';
$t->load(url => $slow, concurrency => 8, requests => 16, read_rate => 1_000_000);
$report = $t->load(path => '/large', concurrency => 1, requests => 60);
cmp_ok $report->{servers}{C}{share}, '>', 0.8, 'slow clients do not lower a server' or diag explain $report->{servers};

my %seen;
$seen{ $_ ? $_->header('X-Server') // $_->status : 'none' }++ for $t->burst(20, '/full');
is $seen{E}, 2, 'two at a time' or diag explain \%seen;
is $seen{F}, 2, 'at each of the two';
is $seen{G}, 16, 'and all others at the third, without an error';

$t->done;
