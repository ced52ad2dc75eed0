# shellcheck shell=sh
# A Prometheus for the tests of metrics: Debian's package, unpacked below build/ and not installed. Sourced, never run; needs
# common.sh and $root.

# fetch_prometheus: status 1, with the reason said, where it cannot be had; the tests then skip what needs it.
fetch_prometheus() {
    # shellcheck disable=SC2154 # set by the script that sources this
    into=$root/build/prometheus
    [ -n "${LABOR_PROMETHEUS:-}" ] || [ -x "$into/usr/bin/prometheus" ] && return 0
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        say 'Prometheus comes as a Debian package, and this host has no apt and dpkg.'
        return 1
    fi
    rm -rf "$into" && mkdir -p "$into/debs" || return 1
    # A machine whose package lists are empty knows no names yet.
    apt-cache show prometheus >/dev/null 2>&1 || as_root apt-get update -q >&2
    say 'Fetching Prometheus …'
    if ! (cd "$into/debs" && apt-get download -q prometheus >&2) || ! dpkg-deb -x "$into"/debs/prometheus_*.deb "$into"; then
        say 'apt-get cannot fetch the package prometheus; the reason stands above.'
        return 1
    fi
    rm -rf "${into:?}/debs" "${into:?}/etc" "${into:?}/var"
}
