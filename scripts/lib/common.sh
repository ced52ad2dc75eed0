# shellcheck shell=sh
# Messages, missing packages, replacing files: what every script here needs. Sourced, never run.
# Expects $root, the directory of the repository. Progress goes to stderr; stdout is for results.

say() { printf '%s\n' "$*" >&2; }

leave() {
    say "${0##*/}: $2"
    exit "$1"
}
fail() { leave 1 "$*"; }
misused() { leave 2 "$*"; }
# 77 is the status by which test drivers know "skipped".
unavailable() { leave 77 "$*"; }

# The comment at the head of the script is its help: printed from the second line to the first line that is no comment.
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# install_packages PACKAGE…: Debian and Ubuntu only; elsewhere, or without the right to, says what is missing.
install_packages() {
    command -v apt-get >/dev/null ||
        fail "missing on this machine (Debian's names): $*. Install your distribution's packages, then run this again"
    as_root true ||
        fail "missing on this machine: $*. Installing them takes root: 'apt-get install $*' as root, then run this again"
    say "Installing: $*"
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get install -y -q --no-install-recommends "$@" >&2 && return 0
    say "Not found: the package lists of a fresh machine are empty or old. Reading them anew."
    as_root apt-get update -q >&2 && as_root apt-get install -y -q --no-install-recommends "$@" >&2 && return 0
    fail "apt-get cannot install: $*. The reason stands above"
}

# clang's library, which bindgen loads, together with its own headers (stddef.h), without which bindgen fails later.
have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    for library in /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib*/libclang*.so*; do
        [ -e "$library" ] || continue
        for header in /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h; do
            [ -e "$header" ] && return 0
        done
    done
    return 1
}

# pcre2.h wants to be told its character width before it is included.
have_header() {
    command -v cc >/dev/null &&
        printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <%s>\n' "$1" | cc -E - >/dev/null 2>&1
}

# What configuring nginx and building the module takes, whichever nginx it is.
missing_build_tools() {
    command -v cc >/dev/null || echo gcc libc6-dev
    command -v make >/dev/null || echo make
    have_libclang || echo libclang-dev
    have_header pcre2.h || echo libpcre2-dev
    have_header openssl/ssl.h || echo libssl-dev
    have_header zlib.h || echo zlib1g-dev
}

# What t/ uses; a minimal Debian has a perl without its standard library.
missing_perl() {
    perl -MTest::More -MTAP::Harness -MJSON::PP -MIO::Socket::IP -e 1 2>/dev/null || echo perl
}

# need_build_tools [PACKAGE…]: all at once, so that someone who must ask an administrator asks once.
need_build_tools() {
    command -v cargo >/dev/null || fail "cargo is not in PATH: install Rust 1.88 or newer (rustup is the usual way)"
    # shellcheck disable=SC2046 # a list of words
    set -- $(missing_build_tools) "$@"
    [ $# -eq 0 ] || install_packages "$@"
}

# replace SOURCE TARGET: a copy that appears whole or not at all; an equal file is left alone, with its time stamp.
replace() {
    cmp -s "$1" "$2" && return 0
    cp "$1" "$2.new.$$" && mv -f "$2.new.$$" "$2"
}

# relink TARGET LINK: a symbolic link, swapped in one step.
relink() {
    [ "$(readlink "$2" 2>/dev/null)" = "$1" ] && return 0
    ln -s "$1" "$2.new.$$" && mv -fT "$2.new.$$" "$2"
}
