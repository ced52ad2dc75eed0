# shellcheck shell=sh
# Questions to an nginx binary, configuring its headers, and its refusals in plain words. Sourced, never run; needs common.sh.

# (Not $NGINX: nginx itself reads inherited sockets from a variable of that name.)
# The nginx of this host: $NGINX_BINARY when set, else the one a person's shell or the distribution would start.
find_nginx() {
    if [ -n "${NGINX_BINARY:-}" ]; then
        [ -x "$NGINX_BINARY" ] && echo "$NGINX_BINARY"
        return
    fi
    for candidate in "$(command -v nginx)" /usr/sbin/nginx /usr/local/sbin/nginx /usr/local/nginx/sbin/nginx; do
        [ -x "$candidate" ] && echo "$candidate" && return
    done
    return 1
}

runs() { "$1" -v >/dev/null 2>&1; }

nginx_version() { "$1" -v 2>&1 | sed -n 's/^nginx version: [^/]*\/\([0-9.]*\).*/\1/p'; }

# The configure arguments as nginx prints them: words in single quotes where they hold spaces.
nginx_arguments() { "$1" -V 2>&1 | sed -n 's/^configure arguments: //p'; }

# nginx_option BINARY NAME DEFAULT: the value of --NAME=… at its configuration.
nginx_option() {
    value=$(nginx_arguments "$1" | sed -n "s/.*--$2='\{0,1\}\([^' ]*\).*/\1/p")
    echo "${value:-$3}"
}

nginx_has() { nginx_arguments "$1" | grep -q -e "--$2\( \|\$\)"; }

require_compat() {
    nginx_has "$1" with-compat || fail "$1 ($(nginx_version "$1")) was built without --with-compat, so no module built apart" \
        "from it can be loaded safely. Use an nginx with --with-compat ('nginx -V' shows it): the packages of Debian and of nginx have it"
}

# The string nginx compares before it loads a module; printed for a binary or a module alike.
signature() { grep -a -o '[0-9],[0-9],[0-9],[01]\{20,\}' "$1" | head -n 1; }

# 1030006 → 1.30.6
dotted() { echo "$(($1 / 1000000)).$(($1 / 1000 % 1000)).$(($1 % 1000))"; }

# try_module BINARY MODULE: has nginx load the module into an empty configuration. Prints nginx's words, returns its status.
# Every path is named, because a packaged nginx's own may not exist or not be writable here.
try_module() {
    scratch=$(mktemp -d) || return 1
    {
        echo "load_module \"$2\";"
        echo "pid $scratch/pid; lock_file $scratch/lock; error_log stderr; events {}"
        echo "http { access_log off;"
        for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/$kind;"; done
        echo "}"
    } >"$scratch/nginx.conf"
    "$1" -e stderr -t -q -p "$scratch" -c "$scratch/nginx.conf" 2>&1
    loaded=$?
    rm -rf "$scratch"
    return $loaded
}

# explain BINARY MODULE MESSAGE: what nginx's refusal means and what to do about it.
explain() {
    case $3 in
    *' version '*' instead of '*)
        built=$(echo "$3" | sed -n 's/.* version \([0-9]*\) instead of \([0-9]*\).*/\1/p')
        wanted=$(echo "$3" | sed -n 's/.* version \([0-9]*\) instead of \([0-9]*\).*/\2/p')
        say "The module was built for nginx $(dotted "$built"), but $1 is nginx $(dotted "$wanted")."
        say "A module fits exactly one nginx version: build it for this one (scripts/install does, after every nginx upgrade)."
        ;;
    *'not binary compatible'*)
        say "The module was built for the same nginx version with other configure options. What each was compiled with:"
        say "  $(signature "$1")  $1"
        say "  $(signature "$2")  $2"
        say "Build against the headers of this very nginx: its -dev package, or its source configured with what 'nginx -V' prints."
        ;;
    *'undefined symbol: ngx_stream'*) say "The stream module must be loaded by a load_module line before this one." ;;
    *'undefined symbol: ngx_modules'*) say "$2 is no nginx module." ;;
    *'undefined symbol'*) say "This nginx lacks a function the module was built to call: build it against this nginx's own headers." ;;
    *'cannot open shared object file'*) say "The path in the load_module line does not lead to the module." ;;
    *'specified too late'*) say "load_module must stand in nginx.conf before the events and http blocks." ;;
    *'is already loaded'*) say "Another load_module line loads the module already: remove one of the two." ;;
    *'unknown directive "labor'*) say "The configuration uses labor, and no load_module line loads the module." ;;
    esac
}

# configure_headers SOURCE TREE BINARY: copies nginx's sources, or only headers as packaged, and configures the copy as BINARY was.
# Debian's nginx-dev brings its options along in conf_flags (a bash array); elsewhere the binary itself tells them, without
# those that name directories of the machine it was built on and without dynamic modules: they change nothing this module sees.
configure_headers() {
    if [ "$1" != "$2" ]; then
        rm -rf "$2"
        { mkdir -p "$2" && cp -RL "$1/." "$2/"; } || return 1
    fi
    if grep -q dpkg-buildflags "$2/conf_flags" 2>/dev/null; then
        command -v dpkg-buildflags >/dev/null || install_packages dpkg-dev
    fi
    log=$2/configure.log
    say "Configuring nginx's headers in ${2#"$root"/} …"
    (
        cd "$2" || exit 1
        script=./configure
        [ -x "$script" ] || script=auto/configure
        if [ -r conf_flags ]; then
            # shellcheck disable=SC2016 # for bash to expand
            bash -c '. ./conf_flags && "$0" "${NGX_CONF_FLAGS[@]}"' "$script"
        else
            eval "set -- $(nginx_arguments "$3")"
            for word in "$@"; do
                shift
                case $word in
                *=dynamic | --add-module=* | --add-dynamic-module=*) ;;
                --builddir=* | --with-openssl=* | --with-pcre=* | --with-zlib=*) ;;
                *) set -- "$@" "$word" ;;
                esac
            done
            "$script" "$@"
        fi && [ -f objs/ngx_auto_config.h ]
    ) >"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        return 1
    }
}
