package Labor::Api;

# labor_api as a test uses it: requests with and without a body, answers decoded. Knows nothing of what is tested.
#
#     my $api = Labor::Api->new($t);                              # the port %%PORT_API%%, location /api/
#     my ($status, $json, $answer) = $api->patch('/upstreams/u/servers/0', { state => 'drain' });

use strict;
use warnings;

use JSON::PP ();

# What stands in http {} for it: a server of its own, so that its port is known.
sub server {
    my (%with) = @_;
    my $words = $with{words} // ' write=on';
    my $guard = $with{guard} // 'allow 127.0.0.1; deny all;';
    return "server { listen 127.0.0.1:%%PORT_API%%; $guard location /api/ { labor_api$words; } }\n";
}

# Options: prefix (/api).
sub new {
    my ($class, $test, %with) = @_;
    return bless { test => $test, prefix => $with{prefix} // '/api' }, $class;
}

# request(METHOD, PATH, headers => […], body => …): (status, decoded body or undef, answer).
sub request {
    my ($self, $method, $path, %with) = @_;
    my $answer = $self->{test}->http($method, "$self->{prefix}$path", port => $self->{test}->port('API'), %with);
    my $json = eval { JSON::PP->new->allow_nonref->decode($answer->body) };
    return ($answer->status, $json, $answer);
}

sub get { my ($self, $path, %with) = @_; return $self->request(GET => $path, %with) }
sub delete { my ($self, $path, %with) = @_; return $self->request(DELETE => $path, %with) }

# patch(PATH, DATA or TEXT): DATA as JSON; with the content type unless `headers` say otherwise.
sub patch {
    my ($self, $path, $data, %with) = @_;
    $with{headers} //= ['Content-Type' => 'application/json'];
    return $self->request(PATCH => $path, body => ref $data ? JSON::PP::encode_json($data) : $data, %with);
}

# code(ANSWER …): status and code of an error, as "404 UpstreamNotFound"; only the status of anything else.
sub code {
    my ($status, $json) = @_;
    my $code = ref $json eq 'HASH' && ref $json->{error} eq 'HASH' && $json->{error}{code};
    return $code ? "$status $code" : "$status";
}

1;
