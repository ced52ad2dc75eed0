# shellcheck shell=sh
# What the browser tests need: node, npm, a Chromium and the packages of tests/browser, which go to build/browser. Sourced, never run;
# needs common.sh and $root.

have_chromium() {
    [ -n "${LABOR_CHROMIUM:-}" ] && return 0
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null && return 0
    done
    return 1
}

missing_browser() {
    command -v node >/dev/null || command -v nodejs >/dev/null || echo nodejs
    command -v npm >/dev/null || echo npm
    # Without windows and printing, where the distribution has it by itself.
    have_chromium || if apt-cache show chromium-headless-shell >/dev/null 2>&1; then echo chromium-headless-shell; else echo chromium; fi
}

# fetch_browser: status 1, with the reason said, where something cannot be had; the tests then skip.
fetch_browser() {
    # A machine whose package lists are empty knows no names yet.
    have_chromium || apt-cache show chromium >/dev/null 2>&1 || as_root apt-get update -q >&2
    # shellcheck disable=SC2046 # a list of words
    set -- $(missing_browser)
    # In a shell of its own: a failure to install ends that one.
    [ $# -eq 0 ] || (install_packages "$@") || return 1
    # shellcheck disable=SC2154 # set by the script that sources this
    lock=$root/tests/browser/package-lock.json
    cmp -s "$lock" "$root/build/browser/package-lock.json" && [ -d "$root/build/browser/node_modules/axe-core" ] && return 0
    say 'Fetching playwright-core and axe-core …'
    mkdir -p "$root/build/browser"
    cp "$root/tests/browser/package.json" "$lock" "$root/build/browser/" || return 1
    (cd "$root/build/browser" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error >&2) || {
        rm -f "$root/build/browser/package-lock.json"
        say 'npm cannot fetch the packages of tests/browser; the reason stands above.'
        return 1
    }
}
