#!/usr/bin/env bash
# The long checks, for a quiet night: hours, not minutes. Run ci/check.sh first.
#
#   ci/deep.sh                  every step
#   ci/deep.sh deny fuzz        only these
#
# Steps, each with the tool that it needs:
#   deny    licences, sources, duplicate crates     cargo install --locked cargo-deny
#   sweep   worlds of many seeds, the whole grid    nothing
#   fuzz    every parser, FUZZ_SECONDS (300) each   cargo install --locked cargo-fuzz; a nightly toolchain
#   count   instructions of an exchange, 3 % margin  valgrind, nginx
#   bench   every case of bench/, at full length     ci/install.sh; a quiet machine
# A step whose tool is missing fails and says so; the others run all the same.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

seeds=${SEEDS:-20000}
fuzz_seconds=${FUZZ_SECONDS:-300}
failed=()

require() { # command, how to install it
    command -v "$1" > /dev/null && return
    echo "missing: $1; install it with: $2" >&2
    return 1
}

deny() {
    require cargo-deny "cargo install --locked cargo-deny" || return
    cargo deny --locked check bans licenses sources
}

sweep() {
    SPILLGATE_SEEDS=$seeds cargo test --locked --release --package spillgate-sim
}

fuzz() {
    require cargo-fuzz "cargo install --locked cargo-fuzz" || return
    local target found
    # What is found goes to a folder of its own: the committed corpus stays small.
    found=$(mktemp -d)
    for target in $(cargo +nightly fuzz list); do
        echo "-- $target (new inputs in $found/$target)"
        mkdir -p "$found/$target"
        cargo +nightly fuzz run "$target" "$found/$target" "fuzz/corpus/$target" -- \
            -max_total_time="$fuzz_seconds" || return
    done
}

count() {
    require valgrind "apt-get install valgrind" || return
    bench/run.sh instructions
}

bench() {
    local case
    for case in bench/*/run.py; do
        [ "$case" = bench/instructions/run.py ] && continue
        bench/run.sh "$(basename "$(dirname "$case")")" || return
    done
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(deny sweep fuzz count bench)
for name in "${steps[@]}"; do
    case $name in
        deny | sweep | fuzz | count | bench) ;;
        *) echo "no such step: $name" >&2 && exit 2 ;;
    esac
done
for name in "${steps[@]}"; do
    printf '\n== %s\n' "$name"
    "$name" || failed+=("$name")
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
echo "all deep checks passed"
