package Labor::Backends;

# What stands behind nginx in a test: model servers, back ends of a few lines, a name server. The part of Labor::Test that
# starts, changes, counts and stops them; their names go where %%ADDR_x%% and %%PORT_x%% find them.

use strict;
use warnings;

use Labor::Dns;
use Labor::Model;
use Labor::Raw;

# model(NAME => SPEC, …): starts model servers (docs/model-servers.md); %%ADDR_NAME%% is where they listen.
sub model {
    my ($self, @servers) = @_;
    push @{ $self->{models} }, my $model = Labor::Model->new($self->dir, @servers);
    for my $name ($model->names) {
        $self->{names}{"ADDR_$name"} = $model->address($name);
        $self->{names}{"PORT_$name"} = $1 if $model->address($name) =~ /:(\d+)$/;
        $self->{model_of}{$name} = $model;
    }
    return $self;
}

# raw(NAME => HANDLER, …): back ends whose bytes the test decides; see Labor::Raw.
sub raw {
    my ($self, @servers) = @_;
    while (my ($name, $handler) = splice @servers, 0, 2) {
        push @{ $self->{models} }, my $raw = Labor::Raw->new($handler);
        $self->{names}{"ADDR_$name"} = $raw->address;
        ($self->{names}{"PORT_$name"}) = $raw->address =~ /:(\d+)$/;
        $self->{raw}{$name} = $raw;
    }
    return $self;
}

# dns(NAME => [ADDRESSES], …): what the name server at %%DNS%% answers from now on.
sub dns {
    my ($self, %names) = @_;
    unless ($self->{dns}) {
        push @{ $self->{models} }, $self->{dns} = Labor::Dns->new($self->dir);
        $self->{names}{DNS} = $self->{dns}->address;
    }
    $self->{dns}->set(%names);
    return $self;
}

sub _model {
    my ($self, $name) = @_;
    return $self->{model_of}{$name} || die "no model server '$name'";
}

# set(NAME => WORDS, …): changes model servers while they run.
sub set {
    my ($self, @changes) = @_;
    while (my ($name, $words) = splice @changes, 0, 2) { $self->_model($name)->set($name, $words) }
    return $self;
}

# close(NAME …): these model servers are down (connections refused); block(NAME …): connections to them neither succeed nor
# fail; open(NAME …): up again.
sub block { my ($self, @names) = @_; $self->_model($_)->block($_) for @names; return $self }
sub close { my ($self, @names) = @_; $self->_model($_)->close($_) for @names; return $self }
sub open { my ($self, @names) = @_; $self->_model($_)->open($_) for @names; return $self }

# stats(NAME): the counters of one server; stats(): of all, by name.
sub stats {
    my ($self, $name) = @_;
    return $self->_model($name)->stats($name) if defined $name;
    return { map { $_ => $self->_model($_)->stats($_) } keys %{ $self->{model_of} } };
}

# Zeroes the counters of all servers, or of those named.
sub reset {
    my ($self, @names) = @_;
    $self->_model($_)->reset($_) for @names ? @names : keys %{ $self->{model_of} };
    return $self;
}

sub _stop_models {
    my ($self) = @_;
    my $models = delete $self->{models} || [];
    return !grep { !$_->stop } @$models;
}

1;
