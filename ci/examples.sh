#!/usr/bin/env bash
# Starts each example as its comment says and asks it for what it promises.
#
#   ci/examples.sh              all
#   ci/examples.sh react-ssr    only this one
#
# Uses the binary in SPILLGATE, by default the debug build. Ports are free ones, so it runs beside
# anything else. Whatever Spillgate printed is shown when a check fails.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

spillgate=${SPILLGATE:-$(realpath "${CARGO_TARGET_DIR:-target}")/debug/spillgate}
scratch=$(mktemp -d)
running=
trap finish EXIT

finish() {
    local status=$?
    [ -z "$running" ] || kill -KILL "$running" 2> /dev/null || true
    [ "$status" = 0 ] || tail -n 50 "$scratch/output" >&2 || true
    rm -rf "$scratch"
}

free_ports() { # count
    python3 - "$1" <<'PY'
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in held))
PY
}

# A copy of the example's configuration that listens on free ports.
config_of() { # example
    read -r listen admin <<< "$(free_ports 2)"
    sed -e "s/127\.0\.0\.1:9000/127.0.0.1:$listen/" -e "s/127\.0\.0\.1:8999/127.0.0.1:$admin/" \
        -e "/^port_base/d" \
        -e "/^\[admin\]/a control = \"$scratch/ctl.sock\"" "$root/examples/$1/spillgate.toml" \
        > "$scratch/$1.toml"
    site=http://127.0.0.1:$listen
    page=http://127.0.0.1:$admin
}

start() { # command…
    "$@" > "$scratch/output" 2>&1 &
    running=$!
    # Until somebody listens; the first request is then held until a worker is ready.
    fetch --retry 60 --retry-connrefused --retry-delay 1 --output /dev/null "$site/health" \
        2> "$scratch/connects" || { cat "$scratch/connects" >&2; return 1; }
}

# SIGTERM must end it by itself, with success.
stop() {
    kill -TERM "$running"
    timeout 40 tail --pid "$running" --follow /dev/null
    wait "$running"
    running=
}

fetch() {
    curl --silent --show-error --fail --max-time 60 "$@"
}

expect() { # what, want, got
    [ "$2" = "$3" ] && return
    printf '%s: expected %q, got %q\n' "$1" "$2" "$3" >&2
    return 1
}

expect_hash() { # a body of several hundred KB arrives whole
    head -c 300000 /dev/urandom > "$scratch/body"
    expect "POST /echo" "$(sha256sum < "$scratch/body" | cut -d ' ' -f 1)" \
        "$(fetch --data-binary "@$scratch/body" "$site/echo")"
}

check_react_ssr() {
    local path
    for path in '/?seed=2' '/stream?seed=2'; do
        fetch --output "$scratch/page" "$site$path"
        expect "title of $path" 1 "$(grep -c '<title>800 places to stay</title>' "$scratch/page")"
        expect "places in $path" 800 "$(grep -o '<article ' "$scratch/page" | wc -l)"
    done
    expect_hash
}

check_node_ops() {
    node --test "$root/examples/node-ops" > "$scratch/tests" || {
        cat "$scratch/tests" >&2
        return 1
    }
    expect "GET /render" DONE "$(fetch "$site/render")"
    fetch --dump-header "$scratch/head" --output "$scratch/big" "$site/big"
    expect "GET /big" "$(sha256sum < "$scratch/big" | cut -d ' ' -f 1)" \
        "$(sed -n 's/^x-sha256: *\([0-9a-f]*\).*/\1/Ip' "$scratch/head")"
    expect_hash
}

check() { # example
    echo "-- $1: serve --config spillgate.toml"
    "$spillgate" check --config "$root/examples/$1/spillgate.toml"
    config_of "$1"
    cd "$root/examples/$1"
    start "$spillgate" serve --config "$scratch/$1.toml"
    expect "GET /ping" PONG "$(fetch "$site/ping")"
    "check_${1//-/_}"
    fetch --output /dev/null "$page/ready"
    expect "metrics" 1 "$(fetch "$page/metrics" | grep -c '^# EOF')"
    stop
    cd "$root"
}

examples=("$@")
[ ${#examples[@]} -gt 0 ] || examples=(node-ops react-ssr)
for example in "${examples[@]}"; do
    check "$example"
done
