# A short life of nginx under valgrind: start, requests of every kind, a reload, a change through labor_api, the end.
#
#     perl -It/lib t/fire/memcheck.pl
#
# One valgrind a process, each with a log of its own. No invalid access and no use of what was never set, in nginx or in the module;
# nothing that is lost for good.

use strict;
use warnings;

use Labor::Nginx;
use Labor::Test;
use Labor::Util qw(slurp spawn finish_child spill group_members);

alarm 600;
my $t = Labor::Test->new(reload => 0);
my $dir = $t->dir;
$t->model(A => 'service=const:2ms', B => 'service=const:5ms,fail=0.1:503', C => 'reset=body,body=2k');
$t->conf(<<'EOC')->write_conf;
    labor_state %%DIR%%/state;
    upstream u { labor; labor_check interval=200ms timeout=150ms; server %%ADDR_A%%; server %%ADDR_B%%; server %%ADDR_C%% backup; keepalive 4; }
    upstream z { zone z 128k; labor header policy=weighted; server %%ADDR_A%%; server %%ADDR_B%%; server %%ADDR_C%%; }
    log_format x '$labor_latency $labor_score $labor_inflight $labor_reason $labor_header_time $labor_response_time';
    server {
        listen %%LISTEN%%;
        access_log %%DIR%%/access.log x;
        location /u { proxy_pass http://u; }
        location /z { proxy_pass http://z; }
        location /api { labor_api write=on; }
        location /status { labor_status; }
        location /metrics { labor_status prometheus; }
        location /page { labor_status html; }
    }
EOC
# What nginx keeps to its end, and what glibc and OpenSSL have on their own account.
spill("$dir/known", <<'EOS');
{
   what a worker allocates at its start is for its life
   Memcheck:Leak
   match-leak-kinds: definite
   fun:malloc
   ...
   fun:ngx_worker_process_init
}
{
   nginx keeps its tables of connections and events
   Memcheck:Leak
   match-leak-kinds: all
   ...
   fun:ngx_event_process_init
}
{
   nginx writes whole structures to its channel
   Memcheck:Param
   sendmsg(msg.msg_iov[0])
   ...
   fun:ngx_write_channel
}
EOS
my $nginx = spawn("$dir/stdout", "$dir/stderr", 'valgrind', '--quiet', '--trace-children=yes', "--log-file=$dir/valgrind.%p",
    '--leak-check=full', '--show-leak-kinds=definite', '--errors-for-leak-kinds=definite', "--suppressions=$dir/known",
    '--num-callers=25', Labor::Nginx::binary(), '-p', $dir, '-c', "$dir/conf/nginx.conf", '-e', "$dir/error.log");
# The processes have valgrind's name, so that the harness cannot tell a worker.
END { if ($nginx) { my $status = $?; finish_child($nginx, 'TERM', 20); kill 'KILL', group_members($nginx); $? = $status } }
eventually { my $c = $t->connection; $c && $c->request('/status', close => 1) } 'nginx runs under valgrind', 60;

my %status;
for my $path (qw(/u /z)) {
    my $report = $t->load(path => $path, concurrency => 4, requests => 300, timeout => '20s');
    $status{$_} += $report->{statuses}{$_} for keys %{ $report->{statuses} };
}
cmp_ok $status{200}, '>', 400, 'requests: ' . join ', ', map { "$_: $status{$_}" } sort keys %status;
is $t->get($_, timeout => 30)->status, 200, $_ for qw(/status /metrics /page /api /api/upstreams /status?upstream=u&history=1);
my @json = (headers => ['Content-Type' => 'application/json'], timeout => 30);
is $t->http(PATCH => '/api/upstreams/u/servers/0', @json, body => '{"weight":3,"state":"drain"}')->status, 200, 'a change';
is $t->http(PATCH => '/api/upstreams/u/servers/0', @json, body => '{"weight":')->status, 415, 'a wrong one';
for my $round (1 .. 2) {
    my $before = () = $t->error_log =~ /start worker process /g;
    kill 'HUP', $nginx;
    eventually { (() = $t->error_log =~ /start worker process /g) >= $before + 2 } "reload $round", 60;
    my $report = $t->load(path => '/u', concurrency => 2, requests => 50, timeout => '20s');
    is_deeply [grep { !/^(?:200|503)$/ } keys %{ $report->{statuses} }], [], 'serves after it';
}
ok finish_child($nginx, 'QUIT', 60), 'ends when asked to';
$nginx = 0;
my @logs = glob "$dir/valgrind.*";
cmp_ok scalar @logs, '>=', 7, scalar(@logs) . ' processes were watched';
my @reports = grep { /\S/ } map { slurp($_) } @logs;
is scalar @reports, 0, 'valgrind has nothing to report' or diag substr join("\n", @reports), 0, 6000;
$t->done;
