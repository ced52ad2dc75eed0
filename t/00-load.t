# The module loads into this nginx, `labor;` is accepted, requests pass, labor_status answers JSON.
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(A => '', B => '');

my $http = <<'EOC';
    upstream u {
        labor;
        server %%ADDR_A%%;
        server %%ADDR_B%%;
    }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } }
EOC

my ($good, $said) = $t->config_test($http);
ok $good, 'nginx -t accepts it' or diag $said;
like $said, qr/test is successful/, 'nginx -t says so';
unlike $said, qr/\[(?:warn|error)\]/, 'without a warning' or diag $said;

$t->conf($http)->run;
is $t->get('/')->status, 200, 'a request passes';
my $served = $t->servers(20);
is_deeply [sort keys %$served], [qw(A B)], 'equal servers both get traffic' or diag explain $served;

my $answer = $t->http(GET => '/', port => $t->port('_STATUS'));
is $answer->status, 200, 'labor_status answers';
like $answer->header('Content-Type') // '', qr{^application/json}, 'as JSON';
my $status = $t->status;
ok ref $status, 'which can be read' or diag $answer->body;
like $answer->body, qr/"u"/, 'it names the upstream';
like $answer->body, qr/\Q$_\E/, "it names the server $_" for map { $t->expand("%%ADDR_${_}%%") } qw(A B);
is $t->http(HEAD => '/', port => $t->port('_STATUS'))->status, 200, 'labor_status knows HEAD';
is $t->http(POST => '/', port => $t->port('_STATUS'), body => 'x')->status, 405, 'and refuses what would change something';

# Without any `labor` the module is loaded and silent.
($good, $said) = $t->config_test('server { listen %%LISTEN%%; }', status => 0);
ok $good, 'a configuration without labor is accepted' or diag $said;

$t->done;
