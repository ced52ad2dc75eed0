# shellcheck shell=sh
# nginx of other Debian releases, without touching this system: its packages are fetched through an apt directory of our own and
# unpacked, never installed. Sourced, never run; needs common.sh, nginx.sh and $root. The mirror is the one this host's apt uses.

# Families known by number, and the Debian release that carries them.
debian_suite() {
    case $1 in
    1.22) echo bookworm ;;
    1.26) echo trixie ;;
    1.30) echo sid ;;
    *) return 1 ;;
    esac
}

# debian_sources SUITE: lines for a sources.list, from what the host's own apt reads for its own release.
debian_sources() {
    host=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release | tr -d '"')
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -r "$keyring" ] || install_packages debian-archive-keyring >&2
    # shellcheck disable=SC2016 # the dollars are apt's
    apt-get indextargets --format '$(RELEASE) $(REPO_URI) $(COMPONENT)' 'Created-By: Packages' |
        awk -v host="$host" -v suite="$1" -v key="$keyring" -v given="${LABOR_DEBIAN_MIRROR:-}" '
            function line(uri, release) { printf "deb [signed-by=%s] %s %s main\n", key, uri, release }
            $3 == "main" && $1 == host && !mirror { mirror = $2 }
            $3 == "main" && $1 == host "-security" && !security { security = $2 }
            END {
                if (given) mirror = given
                if (!mirror) exit 1
                line(mirror, suite)
                if (security && suite != "sid") line(security, suite "-security")
            }'
}

# private_apt DIR PROGRAM ARGUMENT…: apt with every file of its own in DIR.
private_apt() {
    dir=$1 program=$2
    shift 2
    "$program" -o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
        -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts="$dir/none" \
        -o Dir::Etc::PreferencesParts="$dir/none" -o Acquire::Languages=none -o APT::Sandbox::User=root "$@"
}

# debian_update DIR SUITE: reads the release's index.
debian_update() {
    mkdir -p "$1/state/lists/partial" "$1/cache/archives/partial" "$1/none"
    : >"$1/status"
    debian_sources "$2" >"$1/sources.list" || {
        say "No apt source of this host names a Debian mirror; set LABOR_DEBIAN_MIRROR to one."
        return 1
    }
    private_apt "$1" apt-get update -q -o APT::Update::Error-Mode=any >&2
}

# The version of a package in the index read last.
debian_version() { private_apt "$1" apt-cache show --no-all-versions "$2" 2>/dev/null | sed -n 's/^Version: //p'; }

# debian_unpack DIR ROOT PACKAGE…: fetches each package and unpacks it below ROOT.
debian_unpack() {
    apt_dir=$1 unpacked=$2
    shift 2
    rm -rf "$apt_dir/debs" && mkdir -p "$apt_dir/debs" "$unpacked"
    (cd "$apt_dir/debs" && private_apt "$apt_dir" apt-get download -q "$@" >&2) || return 1
    for deb in "$apt_dir"/debs/*.deb; do
        dpkg-deb -x "$deb" "$unpacked" || return 1
    done
    rm -rf "$apt_dir/debs"
}

# Libraries among what the given packages depend on.
debian_libraries() {
    apt_dir=$1
    shift
    private_apt "$apt_dir" apt-cache depends --important "$@" |
        sed -n 's/^ *\(Pre\)\{0,1\}Depends: \(\(lib\|zlib\)[^:]*\).*$/\2/p' | sort -u
}

# give_own_libraries DIR PREFIX: lets PREFIX/nginx, taken from a newer release, run here with that release's C library and friends,
# unpacked beside it. Absolute paths: the interpreter of an ELF file has no other form.
give_own_libraries() {
    command -v patchelf >/dev/null || install_packages patchelf
    first=$(debian_libraries "$1" nginx)
    # shellcheck disable=SC2086 # lists of words
    all=$( (printf '%s\n' $first && debian_libraries "$1" $first) | sort -u)
    say "Unpacking the libraries of that release: $(echo "$all" | tr '\n' ' ')"
    # shellcheck disable=SC2086
    debian_unpack "$1" "$2/libraries" $all || return 1
    interpreter=$(find "$2/libraries" -name 'ld-linux*.so.*' \( -type f -o -type l \) | head -n 1)
    [ -n "$interpreter" ] || return 1
    path=$(find "$2/libraries" -name '*.so*' -exec dirname {} + | sort -u | tr '\n' ':')
    patchelf --set-interpreter "$interpreter" --force-rpath --set-rpath "${path%:}" "$2/nginx"
}

# fetch_debian FAMILY PREFIX: leaves PREFIX/nginx (runnable) and PREFIX/root (unpacked packages, headers included).
# Status 77 when the release cannot be had.
fetch_debian() {
    family=$1 prefix=$2
    suite=$(debian_suite "$family")
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        unavailable "nginx $family comes as a Debian package, and this host has no apt and dpkg"
    fi
    # shellcheck disable=SC2154 # set by the script that sources this
    apt=$root/build/cache/$suite
    say "Reading the index of Debian $suite …"
    debian_update "$apt" "$suite" || unavailable "nginx $family: the index of Debian $suite cannot be read now"
    version=$(debian_version "$apt" nginx)
    case $version in
    "$family".*) ;;
    *) unavailable "nginx $family: Debian $suite carries '${version:-none}' now (families and releases: scripts/lib/debian.sh)" ;;
    esac
    say "Fetching nginx $version …"
    rm -rf "$prefix.new" && mkdir -p "$prefix.new"
    # Both by version, so that a mirror in the middle of an update does not give a binary and headers of two releases.
    debian_unpack "$apt" "$prefix.new/root" "nginx=$version" "nginx-dev=$version" ||
        unavailable "nginx $family: the packages of $version cannot be fetched now"
    cp "$prefix.new/root/usr/sbin/nginx" "$prefix.new/nginx"
    # Before the libraries: their paths are written into the binary.
    rm -rf "$prefix" && mv "$prefix.new" "$prefix"
    if ! runs "$prefix/nginx" && ! { give_own_libraries "$apt" "$prefix" && runs "$prefix/nginx"; }; then
        rm -rf "$prefix"
        unavailable "nginx $family: the binary of $version does not run on this host, even with its own libraries"
    fi
    printf '%s\n' "$version" >"$prefix/package"
    # The index is a hundred megabytes and will be read anew.
    rm -rf "$apt"
}
