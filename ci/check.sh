#!/usr/bin/env bash
# Installs what the tests need, then checks everything that must hold for a change to land.
#
#   ci/check.sh
#
# Runs on Debian and Ubuntu with Rust (rustup or a package), as root or with sudo, asks nothing, and
# can be repeated: what is there is not installed again. Ends at the first step that fails; each
# step prints the command to repeat it alone. The long checks for a quiet night are in ci/deep.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
exec < /dev/null

export CARGO_TERM_COLOR=never RUST_BACKTRACE=1
started=$SECONDS

# Prints the command, runs it, and tells how long it took.
step() {
    local title=$1 began=$SECONDS
    shift
    printf '\n== %s\n   %s\n' "$title" "$*"
    "$@"
    printf '   done in %d s\n' $((SECONDS - began))
}

step "programs that the tests call" ci/install.sh
step "layout" cargo fmt --all --check
step "lints" cargo clippy --locked --workspace --all-targets -- --deny warnings
step "pages of the code" env RUSTDOCFLAGS="--deny warnings" \
    cargo doc --locked --workspace --no-deps --document-private-items
step "one TLS provider" ci/tls.sh
step "the binary" cargo build --locked --bin spillgate
step "real workers, small" ci/bench.sh
step "tests" cargo test --locked --workspace --no-fail-fast
printf '\nAll checks passed in %d s.\n' $((SECONDS - started))
