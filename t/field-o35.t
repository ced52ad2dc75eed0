# O35: figures must stay sane whatever happens: refused, aborted, retried, upgraded, answers with interim headers, time-outs.
# fails when "no value" is shown as 0 or -1, or a subtraction goes below zero.
use strict;
use warnings;
use Labor::Test;
use Labor::Raw qw(read_head);

my $t = Labor::Test->new;
$t->model(ok => 'service=exp:5ms', hang => 'hang', reset => 'reset=header', fail => 'fail=0.5', cut => 'reset=body,body=1k');
$t->raw(hint => sub {
    my ($socket) = @_;
    read_head($socket) or return;
    my $hint = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    print $socket $hint, "HTTP/1.1 200 OK\r\nX-Server: hint\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
});
my $servers = join ' ', map { "server %%ADDR_$_%% max_fails=0;" } qw(ok reset fail cut hint);
$t->conf(<<"EOC")->run;
    log_format v '\$uri;\$labor_response_time;\$labor_header_time;\$labor_latency;\$labor_score;\$labor_inflight;\$labor_reason';
    access_log %%DIR%%/access.log v;
    upstream bytes { labor; $servers server %%DEAD%% max_fails=0; server %%ADDR_hang%% max_fails=0; }
    upstream header { labor header; $servers server %%DEAD%% max_fails=0; }
    server {
        listen %%LISTEN%%;
        proxy_read_timeout 100ms;
        proxy_next_upstream_tries 3;
        location /bytes { proxy_pass http://bytes; proxy_next_upstream error timeout http_503; }
        location /header { proxy_pass http://header; }
    }
EOC

# Some clients leave at once, some wait.
for my $round (1 .. 20) {
    for my $path (qw(/bytes /header)) {
        my @leave = map { my $c = $t->connection; $c->write(Labor::HTTP::format($path)); $c } 1 .. 3;
        $_->close for @leave;
        $t->burst(6, $path);
        $t->http(POST => $path, body => 'x' x 1000);
    }
}

my $status;
ok wait_for {
    $status = $t->status;
    !grep { $_->{in_flight} || $_->{connections} } map { $t->peers($_, $status) } keys %{ $status->{upstreams} };
}, 'in the end nothing is in flight';

my @wrong;
my $lines = my @lines = grep { m{^/(?:bytes|header);} } $t->lines('access.log', 300);
cmp_ok $lines, '>=', 300, 'there are lines';
my ($waited, $attempts) = (5, 0);
for my $line (@lines) {
    my ($uri, @columns) = split /;/, $line, -1;
    my @lists = map { [split / ?[:,] /, $_, -1] } @columns;
    push @wrong, "$line: columns of different length" if grep { @$_ != @{ $lists[0] } } @lists;
    for my $i (0 .. $#{ $lists[0] }) {
        my ($total, $header, $latency, $score, $inflight, $reason) = map { $_->[$i] } @lists;
        $attempts++;
        push @wrong, "$line: $total" unless $total =~ /^\d+\.\d{6}$/ && $total < $waited;
        push @wrong, "$line: $header" unless $header eq '-' || $header =~ /^\d+\.\d{6}$/ && $header <= $total;
        push @wrong, "$line: $latency" unless $latency eq '-' || $latency =~ /^\d+\.\d{6}$/ && $latency < $waited && $latency > 0;
        push @wrong, "$line: $score" unless $score eq '-' || $score =~ /^-?\d+\.\d{3}$/ && abs($score) < 20;
        push @wrong, "$line: $inflight" unless $inflight =~ /^\d+$/ && $inflight < 100;
        push @wrong, "$line: $reason" unless $reason =~ /^[a-z]+$/;
    }
}
is_deeply \@wrong, [], "$attempts attempts in the log: all figures possible";

@wrong = ();
my ($requests, $failures) = (0, 0);
for my $name (sort keys %{ $status->{upstreams} }) {
    my $shares = 0;
    for my $server ($t->peers($name, $status)) {
        my $check = sub {
            my ($what, $value, $least, $most) = @_;
            push @wrong, "$name $server->{server} $what: $value" unless $value >= $least && $value <= $most;
        };
        $check->(latency_us => $server->{latency_us}, 1, 5e6) if defined $server->{latency_us};
        $check->(score => $server->{score}, -20, 20) if defined $server->{score};
        $check->($_ => $server->{$_}, 0, 1e6) for qw(requests aborts evidence in_flight connections);
        $check->($_ => $server->{factors}{$_}, -20, 20) for keys %{ $server->{factors} };
        $check->(share => $server->{share}, 0, 1);
        $check->(level => $server->{failures}{level}, 0, 1);
        $check->(failures => $server->{failures}{total}, 0, $server->{requests});
        $check->(curve => $_->{latency_us}, 1, 1e9) for @{ $server->{curve} };
        $shares += $server->{share};
        $requests += $server->{requests};
        $failures += $server->{failures}{total};
    }
    push @wrong, "$name: shares are $shares" unless abs($shares - 1) < 0.01;
}
is_deeply \@wrong, [], 'labor_status: all figures possible';
is $requests, $attempts, 'and as many attempts as in the log';
# Refused, reset, cut off and late in one upstream, the first three in the other.
cmp_ok $failures, '>=', 7, 'of which some failed';

$t->done;
