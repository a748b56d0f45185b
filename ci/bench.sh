#!/usr/bin/env bash
# What must hold in front of real workers, on a small scale and without judging times: nobody fails
# in calm, over a rolling restart, or beside a hang; a kill costs only what the worker held; never
# two requests inside a worker, also at five times the capacity and when workers fail; nobody fails
# at full speed; each request of an overload ends in exactly one way.
#
#   ci/bench.sh
#
# The same cases at full length, with nginx and HAProxy beside: bench/run.sh ssr, datapath, overload.
set -euo pipefail
cd "$(dirname "$0")/.."

SPILLGATE=${SPILLGATE:-$(realpath "${CARGO_TARGET_DIR:-target}")/debug/spillgate}
export SPILLGATE
rows=$(mktemp)
speed_rows=$(mktemp)
overload_rows=$(mktemp)
trap 'rm -f "$rows" "$speed_rows" "$overload_rows"' EXIT

quiet() {
    bench/run.sh "$@" > "$rows.log" 2>&1 || {
        cat "$rows.log" >&2
        return 1
    }
    rm -f "$rows.log"
}

small() {
    quiet ssr --strict --out "$rows" "$@"
}

small --peers spillgate --clients 13 20 --requests 200 normal kill hang
small --peers spillgate --clients 11 --requests 700 restart
small --peers nginx-haproxy --clients 13 --requests 60 normal
bench/run.sh ssr --table --out "$rows"

quiet datapath --out "$speed_rows" --peers spillgate --connections 64 --rounds 1 --seconds 1
bench/run.sh datapath --table --out "$speed_rows"

# A second of each phase: far too short to tell how good anybody is.
quiet overload --seconds 1 --out "$overload_rows" --peers spillgate \
    --points 5x spike 12x "killed, queue" hang "rolling restart"
bench/run.sh overload --table --out "$overload_rows"
