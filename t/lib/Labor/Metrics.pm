package Labor::Metrics;

# Prometheus's text format 0.0.4, read strictly: what a scraper would accept, and what its rules ask of names.

use strict;
use warnings;

my $NAME = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;
my $NUMBER = qr/(?:[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN)/i;

# parse(TEXT): ({ name => { type, help, samples => [{ name, labels => {}, value }] } }, [what is wrong])
sub parse {
    my ($text) = @_;
    my (%metrics, @wrong, %series, $on);
    push @wrong, 'the last line has no end' unless $text =~ /\n\z/;
    push @wrong, 'carriage returns' if $text =~ /\r\n/;
    for my $line (split /\n/, $text) {
        if ($line =~ /^# HELP ($NAME) (.*)$/) {
            push @wrong, "second HELP of $1" if $metrics{$1};
            $metrics{ $on = $1 } = { help => $2, samples => [] };
        }
        elsif ($line =~ /^# TYPE ($NAME) (counter|gauge|histogram)$/) {
            push @wrong, "TYPE of $1 does not follow its HELP" if $1 ne ($on // '') || $metrics{$1}{type} || @{ $metrics{$1}{samples} };
            $metrics{$1}{type} = $2;
        }
        elsif ($line =~ /^($NAME)(?:\{(.*)\})? ($NUMBER)$/) {
            my ($name, $inner, $value) = ($1, $2 // '', $3);
            my $of = _family($name, $on, \%metrics);
            push @wrong, "$name does not stand with its metric" unless defined $of;
            my %labels;
            while ($inner =~ /\G,?($NAME)="((?:[^"\\\n]|\\[\\"n])*)"/gc) {
                my ($label, $escaped) = ($1, $2);
                push @wrong, "label $label twice: $line" if exists $labels{$label};
                $labels{$label} = $escaped =~ s/\\(.)/$1 eq 'n' ? "\n" : $1/ger;
            }
            push @wrong, "no labels: $line" if (pos($inner) // 0) != length $inner;
            my $key = join "\0", $name, map { "$_=$labels{$_}" } sort keys %labels;
            push @wrong, "twice: $line" if $series{$key}++;
            push @{ $metrics{ $of // $name }{samples} }, { name => $name, labels => \%labels, value => $value };
        }
        else {
            push @wrong, "not the format: $line";
        }
    }
    push @wrong, map { _rules($_, $metrics{$_}) } sort keys %metrics;
    return (\%metrics, \@wrong);
}

# The metric that a sample of NAME belongs to, if that is the one whose lines these are.
sub _family {
    my ($name, $on, $metrics) = @_;
    return unless defined $on;
    return $on if $name eq $on && ($metrics->{$on}{type} // '') ne 'histogram';
    return $on if ($metrics->{$on}{type} // '') eq 'histogram' && $name =~ /^\Q$on\E_(?:bucket|sum|count)$/;
    return;
}

sub _rules {
    my ($name, $metric) = @_;
    my ($type, @wrong) = ($metric->{type} // '');
    push @wrong, "$name has no type" unless $type;
    push @wrong, "$name: a counter ends with _total and nothing else does" if ($type eq 'counter') != ($name =~ /_total$/);
    push @wrong, "$name has no base unit" if $name =~ /_(?:ms|us|milliseconds|microseconds|kb|percent)(?:_|$)/;
    push @wrong, _histogram($name, $metric) if $type eq 'histogram';
    return @wrong;
}

# Buckets grow, end with +Inf, and that is the count.
sub _histogram {
    my ($name, $metric) = @_;
    my (%of, @wrong);
    for my $sample (@{ $metric->{samples} }) {
        my %labels = %{ $sample->{labels} };
        my $le = delete $labels{le};
        my $key = join "\0", map { "$_=$labels{$_}" } sort keys %labels;
        if ($sample->{name} =~ /_bucket$/) { push @{ $of{$key}{buckets} }, [$le, $sample->{value}] }
        else { $of{$key}{ $sample->{name} =~ s/.*_//r } = $sample->{value} }
    }
    for my $one (values %of) {
        my ($bound, $below) = (0, 0);
        for (@{ $one->{buckets} }) {
            my $le = $_->[0] eq '+Inf' ? 9**9**9 : $_->[0];
            push @wrong, "$name: bucket $_->[0] is out of order" if $le <= $bound;
            push @wrong, "$name: bucket $_->[0] is smaller than the one before" if $_->[1] < $below;
            ($bound, $below) = ($le, $_->[1]);
        }
        push @wrong, "$name does not end with +Inf" unless $one->{buckets}[-1][0] eq '+Inf';
        push @wrong, "$name: count is not the last bucket" unless $one->{count} == $below;
        push @wrong, "$name has no sum" unless defined $one->{sum};
    }
    return @wrong;
}

# value(METRICS, NAME, LABEL => VALUE, …): the sum of the samples with these labels; undef when there is none.
sub value {
    my ($metrics, $name, %labels) = @_;
    my $base = $name =~ s/_(?:bucket|sum|count)$//r;
    my $family = $metrics->{$name} || $metrics->{$base} or return;
    my $sum;
    for my $sample (grep { $_->{name} eq $name } @{ $family->{samples} }) {
        next if grep { ($sample->{labels}{$_} // '') ne $labels{$_} } keys %labels;
        $sum = ($sum // 0) + $sample->{value};
    }
    return $sum;
}

1;
