# shellcheck shell=sh
# What scripts/bench-cpu needs: nginx before nginx on free ports, load, and reading what wrk, /proc and callgrind say.
# Sourced, never run. Expects common.sh and $root, $METHODS, $CLIENTS; `prepare` sets $dir.

# A server of nginx's may hold so many requests per connection: no reconnecting in the middle of a measurement.
ENDLESS='keepalive_requests 100000000; keepalive_timeout 600s;'

# prepare KEEP MODULE NGINX: a directory of this run's own with nginx and module, so that a build meanwhile does not change them.
prepare() {
    [ $# -eq 3 ] || fail "no nginx to measure: name one that can be run with --nginx"
    keep=$1
    if [ -n "$keep" ]; then
        mkdir -p "$keep" || fail "cannot make $keep"
        dir=$(cd "$keep" && pwd) || exit 1
    else
        dir=$(mktemp -d "${TMPDIR:-/tmp}/labor-bench-cpu.XXXXXX") || fail "no directory to work in"
    fi
    trap 'clean_up' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    cp -L "$2" "$3" "$dir/" || fail "cannot copy what was built"
}

clean_up() {
    trap - EXIT INT TERM HUP
    for name in model $METHODS; do stop "$name"; done
    [ -n "$keep" ] || rm -rf "$dir"
}

pid_of() { cat "$dir/$1/pid" 2>/dev/null; }

# free_port: one that nobody listens on; the system names it.
free_port() {
    perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1)->sockport'
}

# launch NAME COMMAND…: an nginx with the configuration $dir/NAME/nginx.conf, until it answers.
launch() {
    name=$1
    shift
    "$@" -p "$dir/$name/" -c "$dir/$name/nginx.conf" -e "$dir/$name/error.log" >"$dir/$name/out" 2>&1 &
    echo $! >"$dir/$name/pid"
    tries=600
    until wrk -t1 -c1 -d1 "http://127.0.0.1:$(cat "$dir/$name/port")/" 2>/dev/null | grep -q '^ *[1-9][0-9]* requests in'; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ] || ! kill -0 "$(pid_of "$name")" 2>/dev/null; then
            cat "$dir/$name/out" "$dir/$name/error.log" >&2
            fail "nginx ($name) does not answer"
        fi
    done
}

# stop NAME, and wait until it is gone.
stop() {
    pid=$(pid_of "$1")
    [ -n "$pid" ] || return 0
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    rm -f "$dir/$1/pid"
}

# common_conf SERVERS
common_conf() {
    [ "$(id -u)" -ne 0 ] || echo "user root;"
    echo "daemon off; pid nginx.pid; error_log error.log error; worker_rlimit_nofile $((8192 + 16 * $1));"
    # The model keeps a connection for every server of every worker of all methods.
    echo "events { worker_connections $((4096 + 14 * $1)); }"
}

# addresses COUNT: as many addresses of this machine, 250 to a network of 256.
addresses() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "127.0.%d.%d\n", i / 250, i % 250 + 1 }'; }

# model COUNT: one process that answers `return 200` at once on any address.
model() {
    mkdir -p "$dir/model"
    free_port >"$dir/model/port"
    {
        common_conf "$1"
        echo "master_process off;"
        echo "http { access_log off; $ENDLESS server {"
        echo "listen *:$(cat "$dir/model/port");"
        echo "location / { return 200 ok; } } }"
    } >"$dir/model/nginx.conf"
    launch model "$dir/nginx"
}

# start METHOD COUNT WORKERS: the nginx to be measured before the model; WORKERS `profiled` is one process under callgrind.
start() {
    mkdir -p "$dir/$1"
    free_port >"$dir/$1/port"
    {
        [ "$1" != labor ] || echo "load_module $dir/ngx_http_labor_module.so;"
        common_conf "$2"
        if [ "$3" = profiled ]; then echo "master_process off;"; else echo "worker_processes $3;"; fi
        echo "http { access_log off; $ENDLESS upstream servers { zone servers $((2 + $2 / 250))m;"
        case $1 in labor | least_conn) echo "$1;" ;; esac
        addresses "$2" | sed "s/.*/server &:$(cat "$dir/model/port");/"
        # Every server's connection is kept, so that connecting does not hide what choosing costs.
        echo "keepalive $(($2 + 4 * CLIENTS)); $ENDLESS }"
        echo "server { listen 127.0.0.1:$(cat "$dir/$1/port"); location / { proxy_pass http://servers;"
        echo "proxy_http_version 1.1; proxy_set_header Connection ''; } } }"
    } >"$dir/$1/nginx.conf"
    if [ "$3" = profiled ]; then
        launch "$1" valgrind --tool=callgrind --callgrind-out-file="$dir/$1/callgrind" "$dir/nginx"
    else
        launch "$1" "$dir/nginx"
    fi
}

# load METHOD SECONDS: closed loop; wrk's report.
load() { wrk -t1 -c"$CLIENTS" -d"$2" "http://127.0.0.1:$(cat "$dir/$1/port")/"; }

requests() { awk '/requests in/ { print $1 }' "$1"; }
per_second() { awk '/^Requests\/sec/ { print $2 }' "$1"; }

# answers_only_200 REPORT METHOD: errors are cheap, and would make whoever makes them look fast.
answers_only_200() {
    ! grep -E 'Non-2xx|Socket errors' "$1" >&2 || fail "$2 did not answer every request; see above"
}

# workers METHOD: the processes that do its work.
workers() { cat "/proc/$(pid_of "$1")/task/$(pid_of "$1")/children"; }

# cpu_ticks PIDS: user and system time so far.
cpu_ticks() {
    for pid in $1; do cat "/proc/$pid/stat"; done | sed 's/.*) //' | awk '{ u += $12; s += $13 } END { print u, s }'
}

# compare_throughput FILE: medians of lines "method requests/s user system", their spread, and labor's ratio to the others.
compare_throughput() {
    for method in $METHODS; do
        for column in 2 3 4; do
            awk -v m="$method" -v c="$column" '$1 == m { print $c }' "$1" | sort -n |
                awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'
        done | paste -sd ' ' | sed "s/^/$method /"
    done | awk '
        { name[NR] = $1; rps[NR] = $2; low[NR] = $3; high[NR] = $4; user[NR] = $5; system_[NR] = $8 }
        END {
            printf "  %-12s %10s %19s %9s %9s %13s\n", "", "requests/s", "(lowest, highest)", "user µs", "system µs", "labor is"
            for (i = 1; i <= NR; i++)
                printf "  %-12s %10.0f  (%7.0f, %7.0f) %9.2f %9.2f %12.3fx\n", name[i], rps[i], low[i], high[i], user[i],
                    system_[i], rps[1] / rps[i]
        }'
}

# functions PROFILE: lines "own all name" per function: instructions of its own, and with what it calls. Reads callgrind's format
# itself, since callgrind_annotate tells one function into which others were inlined as many.
functions() {
    awk '
        function name(text,   id) {
            id = text; sub(/\).*/, ")", id)
            if (text != id) { names[id] = substr(text, length(id) + 2) }
            return names[id]
        }
        /^fn=/ { at = name(substr($0, 4)); next }
        /^cfn=/ { name(substr($0, 5)); next }
        /^calls=/ { call = 1; next }
        /^[0-9+*-]/ { if (!call) own[at] += $2; all[at] += $2; call = 0 }
        END { for (f in all) printf "%.0f %.0f %s\n", own[f], all[f], f }' "$1"
}

# clock_work PROFILE: instructions of what labor does so many times a second, not so many times a request, with all that it
# calls. What one of these does within another (looking after the zone builds tables too) is in the other's already, so only
# calls from elsewhere count.
clock_work() {
    awk '
        function name(text,   id) {
            id = text; sub(/\).*/, ")", id)
            if (text != id) { names[id] = substr(text, length(id) + 2) }
            return names[id]
        }
        function by_clock(f) {
            return f ~ /labor_core::table::Table::build|labor_core::long::curves::Curves::(renew|close)|labor::worker::tick|labor_module::worker::tick/
        }
        function reach(f,   g) {
            if (f in reached) return
            reached[f] = 1
            for (g in calls) { if (index(g, f SUBSEP) == 1) reach(substr(g, length(f) + 2)) }
        }
        /^fn=/ { at = name(substr($0, 4)); next }
        /^cfn=/ { to = name(substr($0, 5)); next }
        /^calls=/ { call = 1; next }
        /^[0-9+*-]/ { if (call) calls[at, to] += $2; call = 0 }
        END {
            for (edge in calls) { split(edge, end, SUBSEP); if (by_clock(end[2])) reach(end[2]) }
            for (edge in calls) { split(edge, end, SUBSEP); if (by_clock(end[2]) && !(end[1] in reached)) sum += calls[edge] }
            printf "%.0f\n", sum
        }' "$1"
}

total() { awk '{ sum += $1 } END { printf "%.0f", sum }' "$1"; }

# compare_instructions FILE: lines "method total by-clock requests seconds rate".
compare_instructions() {
    awk '
        {
            each = ($2 - $3) / $4; clock = $3 / $5 / $6
            name[NR] = $1; each_[NR] = each; clock_[NR] = clock; all[NR] = each + clock
        }
        END {
            printf "  %-12s %12s %12s %12s %13s\n", "", "by request", "by clock", "together", "labor is"
            for (i = 1; i <= NR; i++)
                printf "  %-12s %12.0f %12.0f %12.0f %12.3fx\n", name[i], each_[i], clock_[i], all[i], all[1] / all[i]
        }' "$1"
}

# breakdown FUNCTIONS REQUESTS: the module's functions, and those of the mathematical library, by what they take themselves.
breakdown() {
    sort -rn "$1" | awk -v n="$2" '
        /labor|__(exp|log)[a-z0-9_]*|exp2?f?@|log1pf?$/ && $1 / n >= 5 {
            own = $1; $1 = $2 = ""; printf "    %7.0f %s\n", own / n, $0
        }'
}
