package Labor::Schema;

# Checks decoded JSON against a JSON Schema file (2020-12): the keywords that docs/status.schema.json uses, and an error for
# any other, so that nothing in the file is passed over in silence. Debian has no validator for Perl in its base.

use strict;
use warnings;

use JSON::PP ();
use Labor::Util qw(slurp);

my $json = JSON::PP->new->allow_nonref->canonical;
my %ANNOTATION = map { $_ => 1 } qw($schema $defs title description);

# new(FILE)
sub new {
    my ($class, $file) = @_;
    return bless { root => JSON::PP::decode_json(slurp($file)) }, $class;
}

# errors(DATA): "PLACE: what is wrong" for each breach; none when the data is as described.
sub errors {
    my ($self, $data) = @_;
    my @errors;
    $self->_check($data, $self->{root}, '$', \@errors);
    return @errors;
}

my %CHECK = (
    type => sub {
        my ($self, $value, $types) = @_;
        my $is = _type($value);
        my $fits = grep { $_ eq $is || ($_ eq 'number' && $is eq 'integer') } ref $types ? @$types : $types;
        return $fits ? () : "$is is no " . (ref $types ? join '|', @$types : $types);
    },
    const => sub { return $json->encode($_[1]) eq $json->encode($_[2]) ? () : $json->encode($_[1]) . ' is another value' },
    enum => sub {
        my ($self, $value, $known) = @_;
        return (grep { $json->encode($_) eq $json->encode($value) } @$known) ? () : $json->encode($value) . ' is not foreseen';
    },
    pattern => sub { return ref $_[1] || !defined $_[1] || $_[1] =~ /$_[2]/ ? () : "\"$_[1]\" does not match $_[2]" },
    minimum => sub { return !_is_number($_[1]) || $_[1] >= $_[2] ? () : "$_[1] is less than $_[2]" },
    maximum => sub { return !_is_number($_[1]) || $_[1] <= $_[2] ? () : "$_[1] is more than $_[2]" },
    maxItems => sub { return ref $_[1] ne 'ARRAY' || @{ $_[1] } <= $_[2] ? () : scalar(@{ $_[1] }) . " items, $_[2] allowed" },
    required => sub {
        my ($self, $value, $names) = @_;
        return ref $value eq 'HASH' ? map { "\"$_\" is missing" } grep { !exists $value->{$_} } @$names : ();
    },
    items => sub {
        my ($self, $value, $schema, $at, $errors) = @_;
        return unless ref $value eq 'ARRAY';
        $self->_check($value->[$_], $schema, "$at\[$_]", $errors) for 0 .. $#$value;
        return;
    },
    properties => sub {
        my ($self, $value, $of, $at, $errors) = @_;
        return unless ref $value eq 'HASH';
        $self->_check($value->{$_}, $of->{$_}, "$at.$_", $errors) for grep { exists $value->{$_} } sort keys %$of;
        return;
    },
    additionalProperties => sub {
        my ($self, $value, $schema, $at, $errors, $all) = @_;
        return unless ref $value eq 'HASH';
        my @more = grep { !exists +($all->{properties} || {})->{$_} } sort keys %$value;
        return map { "\"$_\" is not foreseen" } @more unless ref $schema eq 'HASH';
        $self->_check($value->{$_}, $schema, "$at.$_", $errors) for @more;
        return;
    },
    propertyNames => sub {
        my ($self, $value, $schema, $at, $errors) = @_;
        $self->_check($_, $schema, "$at (name)", $errors) for ref $value eq 'HASH' ? sort keys %$value : ();
        return;
    },
    oneOf => sub {
        my ($self, $value, $schemas, $at, $errors) = @_;
        my @tries = map { my @own; $self->_check($value, $_, $at, \@own); \@own } @$schemas;
        return if grep({ !@$_ } @tries) == 1;
        push @$errors, @{ $tries[-1] };
        return;
    },
    '$ref' => sub {
        my ($self, $value, $ref, $at, $errors) = @_;
        my ($name) = $ref =~ m{^#/\$defs/(\w+)$} or die "reference $ref is not known\n";
        $self->_check($value, $self->{root}{'$defs'}{$name} // die("no definition $name\n"), $at, $errors);
        return;
    },
);

sub _check {
    my ($self, $value, $schema, $at, $errors) = @_;
    for my $keyword (sort keys %$schema) {
        next if $ANNOTATION{$keyword};
        my $check = $CHECK{$keyword} // die "keyword $keyword is not known\n";
        push @$errors, map { "$at: $_" } $check->($self, $value, $schema->{$keyword}, $at, $errors, $schema);
    }
    return;
}

sub _is_number { return _type($_[0]) =~ /^(?:number|integer)$/ }

sub _type {
    my ($value) = @_;
    return 'null' unless defined $value;
    return 'boolean' if JSON::PP::is_bool($value);
    return { HASH => 'object', ARRAY => 'array' }->{ ref $value } // die 'no JSON' if ref $value;
    my $text = $json->encode($value);
    return 'string' if $text =~ /^"/;
    return $text =~ /^-?\d+$/ ? 'integer' : 'number';
}

1;
