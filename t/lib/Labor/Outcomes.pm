package Labor::Outcomes;

# How attempts ended, case by case: what the debug log says of each, what labor_status counted, what the log variables show.
# Used by t/outcomes-*.t.

use strict;
use warnings;

use Exporter 'import';
use Labor::Util qw(wait_for slurp);
use Test::More;

our @EXPORT = qw(outcome_logs check_outcome);

# What http{} needs; both error logs, as one in http{} replaces that of the harness.
sub outcome_logs {
    return <<'EOC';
    log_format outcome '$request_uri|$status|$labor_response_time|$labor_header_time|$labor_latency|$labor_inflight|$labor_reason';
    access_log %%DIR%%/access.log outcome;
    error_log %%DIR%%/error.log notice;
    error_log %%DIR%%/debug.log debug_http;
EOC
}

# check_outcome(TEST, NAME, EXPECTED, DO, [PATTERN]): DO makes one request of a client. EXPECTED names the attempts of it in
# their order, such as "fail-connect/0 pass/200": outcome and status, 0 without a header. PATTERN is for the variables.
sub check_outcome {
    my ($t, $name, $expected, $do, $pattern) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @expected = split ' ', $expected;
    my ($attempts, $lines, $before) = (scalar(my @a = _attempts($t)), scalar(my @l = _lines($t)), _totals($t));
    $do->();
    # The last to come about is either the end of the request (its line) or the end of the attempt (free).
    my $quiet = wait_for {
        _attempts($t) >= $attempts + @expected && _lines($t) > $lines && !grep { $_ } @{ _totals($t) }{qw(in_flight connections)}
    };
    my @got = _attempts($t);
    is join(' ', @got[$attempts .. $#got]), $expected, $name;
    my $after = _totals($t);
    my %counted = map { $_ => $after->{$_} - $before->{$_} } keys %$after;
    is_deeply \%counted, _count(@expected), "$name: counted as that in labor_status" or diag explain \%counted;
    my @new = _lines($t);
    like $new[$lines], $pattern, "$name: variables" if $pattern;
    return $quiet;
}

# All attempts so far. The debug log grows fast, so only what is new is read.
sub _attempts {
    my ($t) = @_;
    my $seen = $t->{outcomes} //= { from => 0, attempts => [] };
    if (open my $log, '<', $t->dir . '/debug.log') {
        seek $log, $seen->{from}, 0;
        while (my $line = <$log>) {
            last unless $line =~ /\n\z/;
            $seen->{from} += length $line;
            push @{ $seen->{attempts} }, "$1/$2" if $line =~ m{labor: attempt \S+ (\S+) status (\d+) total};
        }
    }
    return @{ $seen->{attempts} };
}

# Without those of labor_status itself.
sub _lines { return grep { !m{^/\|} } split /\n/, slurp($_[0]->dir . '/access.log') }

# The sums over all servers.
sub _totals {
    my ($t) = @_;
    my %sum = map { $_ => 0 } qw(requests aborts in_flight connections total connect timeout reset header status);
    my $status = $t->status;
    for my $upstream (keys %{ $status->{upstreams} }) {
        for my $server ($t->peers($upstream, $status)) {
            $sum{$_} += $server->{$_} for qw(requests aborts in_flight connections);
            $sum{$_} += $server->{failures}{$_} for qw(total connect timeout reset header status);
        }
    }
    return \%sum;
}

# What EXPECTED must add to the sums.
sub _count {
    my %sum = map { $_ => 0 } qw(requests aborts in_flight connections total connect timeout reset header status);
    for (@_) {
        $sum{requests}++;
        $sum{aborts}++ if /^abort/;
        next unless /^fail-(\w+)/;
        $sum{$1}++;
        $sum{total}++;
    }
    return \%sum;
}

1;
