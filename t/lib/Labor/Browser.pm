package Labor::Browser;

# A headless Chromium for tests of pages, through playwright-core: scripts/test fetches both. What it can be told stands in
# tests/browser/driver.js; each of its commands is a method here, with its words as options.
#
#     my $browser = Labor::Browser->new($t->dir);
#     $browser->open(url => $url);
#     eventually { $browser->value('document.title') eq 'labor' } 'titled';

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IO::Handle;
use JSON::PP ();
use Labor::Util qw(slurp spawn finish_child wait_for);

my $ROOT = abs_path(dirname(__FILE__) . '/../../..');
my $JSON = JSON::PP->new->utf8->allow_nonref;

my %DESKTOP = (width => 1360, height => 900);

sub modules { return $ENV{LABOR_BROWSER_MODULES} || "$ROOT/build/browser/node_modules" }

sub _program {
    my (@names) = @_;
    for my $name (@names) {
        my ($found) = grep { -x } map { "$_/$name" } split /:/, $ENV{PATH};
        return $found if $found;
    }
    return;
}

sub chromium { return $ENV{LABOR_CHROMIUM} || _program(qw(chromium-headless-shell chromium chromium-browser google-chrome)) }

# What is missing for such tests, in words; '' when nothing is.
sub missing {
    my @missing;
    push @missing, 'node' unless _program('node', 'nodejs');
    push @missing, 'Chromium' unless chromium();
    push @missing, grep { !-d modules() . "/$_" } qw(playwright-core axe-core);
    return @missing ? "no @missing; scripts/test fetches what it can" : '';
}

# new(DIR): a running browser; its messages go to DIR/browser.err.
sub new {
    my ($class, $dir) = @_;
    my $self = bless { out => "$dir/browser.out", err => "$dir/browser.err", read => 0 }, $class;
    # It ends when this pipe closes: also when the test is killed.
    pipe my $in, $self->{to} or die "pipe: $!";
    $self->{to}->autoflush(1);
    local $ENV{LABOR_BROWSER_MODULES} = modules();
    local $ENV{LABOR_CHROMIUM} = chromium();
    $self->{pid} = spawn($self->{out}, $self->{err}, _program('node', 'nodejs'), "$ROOT/tests/browser/driver.js", $in);
    $self->{version} = $self->_answer(90);
    return $self;
}

sub version { return $_[0]{version} }

sub _answer {
    my ($self, $seconds) = @_;
    my $line = wait_for {
        my $text = substr slurp($self->{out}), $self->{read};
        $text =~ /\A(.*)\n/ ? $1 : undef;
    } $seconds;
    die "the browser does not answer: " . slurp($self->{err}) . "\n" unless defined $line;
    $self->{read} += 1 + length $line;
    my $answer = $JSON->decode($line);
    die "browser: $answer->{error}\n" if defined $answer->{error};
    return $answer->{value};
}

sub _do {
    my ($self, $what, %with) = @_;
    my $to = $self->{to};
    local $SIG{PIPE} = 'IGNORE';
    print $to $JSON->encode({ %with, do => $what }), "\n";
    return $self->_answer(90);
}

sub open { my ($self, %with) = @_; return $self->_do(open => scripts => JSON::PP::true, dark => JSON::PP::false, %DESKTOP, %with) }
sub look { my ($self, %with) = @_; return $self->_do(look => dark => JSON::PP::false, %DESKTOP, %with) }
sub value { my ($self, $of) = @_; return $self->_do(value => of => $of) }
sub press { my ($self, $key) = @_; return $self->_do(press => key => $key) }
sub click { my ($self, $on) = @_; return $self->_do(click => on => $on) }
sub type { my ($self, $on, $text) = @_; return $self->_do(type => on => $on, text => $text) }
sub shot { my ($self, $file) = @_; return $self->_do(shot => file => $file, full => JSON::PP::true) }
sub axe { my ($self) = @_; return @{ $self->_do('axe') } }
sub said { my ($self) = @_; return $self->_do('said') }

# True when it ended by itself.
sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return 1;
    close $self->{to};
    return finish_child($pid, undef, 60);
}

sub DESTROY {
    my ($self) = @_;
    local $?;
    $self->stop;
}

1;
