# shellcheck shell=sh
# An nginx compiled with sanitizers or for valgrind, from the source that the crate registry carries; and the module with
# AddressSanitizer where this Rust allows that. Sourced by scripts/fire, never run; needs common.sh. Expects $root.

# The source of the vendored nginx, as cargo has it on this machine.
vendored_source() {
    # shellcheck disable=SC2154 # set by the script that sources this
    manifest=$(cd "$root" && cargo metadata --format-version 1 --features vendored 2>/dev/null |
        grep -o '"manifest_path":"[^"]*/nginx-src-[^"]*/Cargo.toml"' | head -n 1 | sed 's/^[^:]*:"//; s/"$//')
    source=$(dirname "$manifest")/nginx
    [ -f "$source/src/core/nginx.h" ] || fail "cargo has no source of the vendored nginx: run scripts/build first"
    echo "$source"
}

# instrumented_nginx NAME CC-OPTIONS LD-OPTIONS: build/NAME/nginx, compiled once for these options. NGX_DEBUG_PALLOC gives each
# piece of a pool its own allocation: else an overrun inside a pool's page is seen by nobody.
instrumented_nginx() {
    prefix=$root/build/$1
    source=$(vendored_source) || exit 1
    stamp="$source $2 $3"
    if [ ! -x "$prefix/nginx" ] || [ "$(cat "$prefix/stamp" 2>/dev/null)" != "$stamp" ]; then
        say "Compiling nginx ($1): a minute or two …"
        rm -rf "$prefix/src"
        { mkdir -p "$prefix" && cp -R "$source" "$prefix/src"; } || fail "cannot copy nginx's source to $prefix/src"
        (
            cd "$prefix/src" || exit 1
            script=./configure
            [ -x "$script" ] || script=auto/configure
            # The vendored nginx's own options, so that the module built for that one fits.
            bash "$script" --with-compat --with-http_realip_module --with-http_ssl_module --with-http_v2_module \
                --with-stream --with-stream_realip_module --with-stream_ssl_module --with-threads \
                --with-cc-opt="-g -O1 -fno-omit-frame-pointer -Wno-error $2" --with-ld-opt="-rdynamic $3" &&
                nice make -j "$(nproc)"
        ) >"$prefix/make.log" 2>&1 || fail "nginx ($1) does not compile (see $prefix/make.log)"
        replace "$prefix/src/objs/nginx" "$prefix/nginx" || fail "cannot write $prefix/nginx"
        echo "$stamp" >"$prefix/stamp"
    fi
}

# AddressSanitizer and UBSan. Not asked for: alignment (nginx reads addresses and headers as words where the machine can), and
# null pointers with an offset of 0 or a length of 0 (its empty strings).
ASAN_CHECKS='-fsanitize=address,bounds,integer-divide-by-zero,unreachable,return,shift-exponent,signed-integer-overflow,vla-bound,float-cast-overflow'
asan_nginx() { instrumented_nginx asan "$ASAN_CHECKS -DNGX_DEBUG_PALLOC=1" "$ASAN_CHECKS"; }

# No inlined or pooled tricks that valgrind would misread.
valgrind_nginx() { instrumented_nginx valgrind '-DNGX_DEBUG_PALLOC=1 -DNGX_VALGRIND=1' ''; }

# lines_module: t/fire/lines.c for the nginx with sanitizers; prints its path.
lines_module() {
    tree=$root/build/asan/src module=$root/build/asan/lines.so
    # shellcheck disable=SC2086 # options
    (
        cd "$tree" &&
            cc -shared -fPIC -g -O1 $ASAN_CHECKS -Wall -Werror -Wno-unused-parameter -I src/core -I src/event -I src/event/modules \
                -I src/os/unix -I objs -I src/http -I src/http/modules -I src/http/v2 -o "$module" "$root/t/fire/lines.c" >&2
    ) || fail 't/fire/lines.c does not compile'
    echo "$module"
}

# preload NAME: t/fire/NAME.c as a library to put before libc; prints its path.
preload() {
    mkdir -p "$root/build/fire"
    cc -shared -fPIC -g -O2 -Wall -Werror -o "$root/build/fire/$1.so" "$root/t/fire/$1.c" -ldl || fail "t/fire/$1.c does not compile"
    echo "$root/build/fire/$1.so"
}
