#!/usr/bin/env bash
# The front door to all benches: `bench/run.sh CASE [ARGUMENT…]`, where CASE is a folder here with a
# run.py. Builds the release binary first, unless SPILLGATE names another.
set -euo pipefail
cd "$(dirname "$0")/.."

case=${1:-}
if [ -z "$case" ] || [ ! -f "bench/$case/run.py" ]; then
    echo "usage: bench/run.sh CASE [ARGUMENT…]; cases:" bench/*/run.py >&2
    exit 2
fi
shift
for program in node nginx haproxy; do
    if ! PATH="$PATH:/usr/sbin" command -v "$program" > /dev/null; then
        echo "missing: $program; install it with: ci/install.sh" >&2
        exit 1
    fi
done
if [ -z "${SPILLGATE:-}" ]; then
    cargo build --locked --release --bin spillgate
    SPILLGATE=$(realpath "${CARGO_TARGET_DIR:-target}")/release/spillgate
fi
if [ -f "bench/$case/Cargo.toml" ] && [ -z "${OVERLOAD:-}" ]; then
    cargo build --locked --release --manifest-path "bench/$case/Cargo.toml" \
        --target-dir "bench/$case/target"
fi
export SPILLGATE PATH="$PATH:/usr/sbin"
exec python3 "bench/$case/run.py" "$@"
