# The status as a part of a page (SSI): the page goes on behind it.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new(reload => 0);
$t->model(A => '');
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%%; }
    server {
        listen %%LISTEN%%;
        location = /part { labor_status; }
        location = /page {
            ssi on;
            default_type text/html;
            return 200 'before <!--# include virtual="/part" --> after';
        }
        location / { proxy_pass http://u; }
    }
EOC

my $answer = $t->get('/page');
is $answer->status, 200, 'a page with the status in it';
like $answer->body, qr/^before \{"version":1,.*\}\n? after$/s, 'the status stands in its place, and the rest of the page follows';
like $t->get('/part')->body, qr/^\{.*\}\n$/s, 'by itself it is the whole answer';

$t->done;
