# Each configuration of nginx-conf/ passes `nginx -t` as it is, in a prefix laid out as an installed nginx has it.
use strict;
use warnings;
use File::Basename qw(basename dirname);
use File::Path qw(make_path);
use Labor::Nginx;
use Labor::Test;
use Labor::Util qw(slurp spill);

my $t = Labor::Test->new;
my @files = glob dirname(__FILE__) . '/../nginx-conf/*.conf';
cmp_ok scalar @files, '>=', 4, 'there are examples';

# Beside the files: what they refer to by relative paths.
my $prefix = $t->dir . '/prefix';
make_path map { "$prefix/$_" } qw(logs modules conf);
symlink Labor::Nginx::module(), "$prefix/modules/ngx_http_labor_module.so";
for my $line (map { split /\n/, slurp($_) } @files) {
    next unless $line =~ /^\s*ssl_certificate(_key)?\s+(\S+);/ && $2 !~ m{^/};
    my ($key, $file) = ($1, "$prefix/conf/$2");
    make_path dirname($file);
    make_certificate($file =~ s/\.[^.\/]*$//r, $file, $key) unless -e $file;
}

# A key and a certificate for both names, made once.
sub make_certificate {
    my ($base, $file, $is_key) = @_;
    my ($key, $certificate) = ("$prefix/key.pem", "$prefix/certificate.pem");
    system("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost "
        . "-keyout '$key' -out '$certificate' 2>/dev/null") unless -e $key;
    spill($file, slurp($is_key ? $key : $certificate));
}

for my $file (@files) {
    my $name = basename($file);
    SKIP: {
        skip "$name: this nginx has no TLS", 1 if slurp($file) =~ /\bssl\b/ && !$t->has('ssl');
        my $conf = "$prefix/conf/$name";
        # Ports and standard streams belong to whoever runs the tests; everything else stays as it is.
        my $text = slurp($file);
        $text =~ s/(listen\s+(?:[^;\s]*:)?)(\d+)/$1 . $t->port("$name$2")/ge;
        $text = "user root;\n$text" if $> == 0;
        spill($conf, $text);
        my ($nginx, $log) = (Labor::Nginx::binary(), "$prefix/logs/check.log");
        my $said = `'$nginx' -t -p '$prefix/' -c '$conf' -e '$log' -g 'pid $prefix/logs/nginx.pid;' 2>&1`;
        like $said, qr/test is successful/, "$name: nginx -t" or diag $said;
        unlike $said, qr/\[warn\]/, "$name: without a warning" or diag $said;
    }
}

$t->done;
