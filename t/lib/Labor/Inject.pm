package Labor::Inject;

# Puts `labor;` into every http upstream block of a configuration that names no method, while the public nginx-tests suite
# writes it; only with LABOR_INJECT=1. Always: leaves out dynamic modules of the nginx that are not there. Loaded into each of
# its files by scripts/conformance (PERL5OPT=-MLabor::Inject); changes no file of the suite.

use strict;
use warnings;

# A method of its own, or ours already.
my $METHOD = qr/(?:\A|;)(?:\s|\#[^\n]*)*(?:hash|ip_hash|least_conn|least_time|random|labor)\b[^;{}]*;/;

# After everything is compiled and before it runs: the suite's module is there, its first file is not written.
INIT {
    no warnings qw(redefine prototype once);
    # The suite loads every dynamic module that `nginx -V` names; a package has them in packages of their own.
    if (my $modules = Test::Nginx->can('test_globals_modules')) {
        *Test::Nginx::test_globals_modules = sub {
            return join '', grep { !/^load_module\s+([^;]+);/ || -e $1 } split /^/, $modules->(@_);
        };
    }
    if ($ENV{LABOR_INJECT} && (my $write = Test::Nginx->can('write_file'))) {
        *Test::Nginx::write_file = sub {
            my ($self, $name, $content) = @_;
            return $write->($self, $name, $name =~ /\.conf$/ ? inject($content) : $content);
        };
    }
}

# The same configuration with `labor;` first in each of those blocks.
sub inject {
    my ($text) = @_;
    my ($result, @blocks) = ('');
    while ($text =~ /\G((?:\#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{};#"'])*)([{};]|\z)/gs) {
        my ($words, $mark) = ($1, $2);
        $result .= $words . $mark;
        if ($mark eq '{') {
            # The word that begins the line on which the block opens.
            push @blocks, $words =~ /(?:\A|\n)\s*([a-z_]+)[^\n]*\z/ ? $1 : '';
            my $ours = $blocks[-1] eq 'upstream' && grep { $_ eq 'http' } @blocks;
            $result .= ' labor;' if $ours && !has_method($text, pos $text);
        }
        elsif ($mark eq '}') { pop @blocks }
        last if $mark eq '';
    }
    return $result;
}

sub has_method {
    my ($text, $from) = @_;
    my ($block) = substr($text, $from) =~ /\A([^}]*)/;
    return $block =~ $METHOD;
}

1;
