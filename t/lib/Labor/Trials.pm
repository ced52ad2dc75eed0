package Labor::Trials;

# A server that failed and was counted out for hours is back soon after its recovery, whatever the method of the requests:
# one test for field-t-trials-*.t.

use strict;
use warnings;

use Exporter 'import';
use Labor::Test;
use Time::HiRes qw(time);

our @EXPORT = 'recovers_by_trials';

# recovers_by_trials(METHOD): the whole test, with requests of this method only.
sub recovers_by_trials {
    my ($method) = @_;
    # A reload would make nginx forget its failures, and with them what is tested.
    my $t = Labor::Test->new(reload => 0);
    $t->model(A => 'service=const:5ms', B => 'service=const:50ms');
    $t->conf(<<'EOC')->run;
    upstream u {
        labor;
        server %%ADDR_A%% max_fails=3 fail_timeout=10000s;
        server %%ADDR_B%% max_fails=3 fail_timeout=10000s;
    }
    server {
        listen %%LISTEN%%;
        proxy_next_upstream error timeout http_503 non_idempotent;
        location / { proxy_pass http://u; }
    }
EOC

    my %load = (rate => 50, method => $method);

    cmp_ok _share($t->load(%load, requests => 100)), '>', 0.8, 'A is the fastest';

    # It fails until nginx counts it out.
    $t->set(A => 'fail=1:503');
    my $errors = 0;
    eventually {
        $errors += $t->load(%load, requests => 25)->{error_count};
        _state_of_a($t) eq 'unavail';
    } 'A fails and is counted out', 30;
    is $errors, 0, 'B answers in its place';

    $t->set(A => 'fail=0');
    my $well = time;
    eventually { _share($t->load(%load, requests => 25)) > 0.5 } 'A is the fastest again within a minute', 60;
    diag sprintf 'back after %.1f s', time - $well;

    $t->done;
}

sub _share { my ($report) = @_; return ($report->{servers}{A} || {})->{share} // 0 }

sub _state_of_a {
    my ($t) = @_;
    my ($a) = grep { $_->{server} eq $t->expand('%%ADDR_A%%') } $t->peers('u');
    return $a ? $a->{state} : '';
}

1;
