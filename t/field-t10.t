# T10: a server that was down and came back is used again, and then the same with the other one: nothing but a restart or the
# failure of all must not be needed; neither with active checks.
# fails with: "server A down" (never used again).
use strict;
use warnings;
use Labor::Test;

my $t = Labor::Test->new;
$t->model(map { $_ => 'service=const:20ms,k=1' } qw(A B C D));
# nginx would count a server out for an hour.
$t->conf(<<'EOC')->run;
    upstream u { labor; server %%ADDR_A%% fail_timeout=1h; server %%ADDR_B%% fail_timeout=1h; }
    upstream v { labor; labor_check interval=1s timeout=500ms; server %%ADDR_C%% fail_timeout=1h; server %%ADDR_D%% fail_timeout=1h; }
    server { listen %%LISTEN%%; location / { proxy_pass http://u; } location /v { proxy_pass http://v; } }
EOC

sub share {
    my ($name, %with) = @_;
    my $report = $t->load(rate => 40, path => $name =~ /[AB]/ ? '/' : '/v', %with);
    is $report->{error_count}, 0, 'no error' if $report->{error_count};
    return ($report->{servers}{$name} || {})->{share} // 0;
}

for my $name (qw(A B C D)) {
    cmp_ok share($name, requests => 80), '>', 0.2, "$name has its share";
    $t->close($name);
    share($name, requests => 120);
    is share($name, requests => 20), 0, "$name is down and has none";
    $t->open($name);
    eventually { share($name, requests => 40) >= 0.2 } "$name is up again: 20 % within 30 s", 30;
}

$t->done;
