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
    if command -v apt-get >/dev/null; then
        say "Installing: $*"
        export DEBIAN_FRONTEND=noninteractive
        as_root apt-get install -y -q --no-install-recommends "$@" >&2 && return 0
        # The package lists of a fresh machine are empty or old.
        as_root apt-get update -q >&2 && as_root apt-get install -y -q --no-install-recommends "$@" >&2 && return 0
        fail "cannot install packages here. As root: apt-get install $*; then run this again"
    fi
    fail "missing on this machine (Debian's names): $*. Install your distribution's packages, then run this again"
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
have_header() { printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <%s>\n' "$1" | cc -E - >/dev/null 2>&1; }

# What configuring nginx and building the module takes, whichever nginx it is.
need_build_tools() {
    command -v cargo >/dev/null || fail "cargo is not in PATH: install Rust 1.88 or newer (rustup is the usual way)"
    missing=
    command -v cc >/dev/null || missing="$missing gcc libc6-dev"
    command -v make >/dev/null || missing="$missing make"
    have_libclang || missing="$missing libclang-dev"
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086 # a list of words
        install_packages $missing
    fi
    missing=
    have_header pcre2.h || missing="$missing libpcre2-dev"
    have_header openssl/ssl.h || missing="$missing libssl-dev"
    have_header zlib.h || missing="$missing zlib1g-dev"
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086
        install_packages $missing
    fi
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
