#!/usr/bin/env bash
# The dependency tree holds at most one TLS library in one version, with one provider of ciphers.
#
#   ci/tls.sh
#
# With two providers rustls stops at the first handshake; OpenSSL would be a second trust store and a
# second stream of security updates.
set -euo pipefail
cd "$(dirname "$0")/.."

tree=$(cargo tree --locked --workspace --edges normal,build --prefix none --format '{p}' |
    awk '{print $1, $2}' | sort --unique)
bad=0
for name in ring openssl openssl-sys native-tls boring boring-sys; do
    if grep -q "^$name " <<< "$tree"; then
        echo "$name is in the tree: cargo tree --invert $name" >&2
        bad=1
    fi
done
for name in rustls aws-lc-rs aws-lc-sys; do
    count=$(grep -c "^$name " <<< "$tree" || true)
    if [ "$count" -gt 1 ]; then
        echo "$name is in the tree $count times: cargo tree --duplicates" >&2
        bad=1
    fi
done
exit "$bad"
