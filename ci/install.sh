#!/usr/bin/env bash
# Installs the programs and packages that tests, examples and benches call. Repeatable.
#
#   ci/install.sh
#
# Debian and Ubuntu; root or sudo. Nothing is done where everything is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

node_major_min=18 # react-dom/server and the examples run on it

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo --non-interactive "$@"; fi
}

node_is_recent() {
    local major
    major=$(node --version 2>/dev/null | sed -E 's/^v([0-9]+).*/\1/') || return 1
    [ "${major:-0}" -ge "$node_major_min" ]
}

missing=()
need() { # command, package
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" > /dev/null || missing+=("$2")
}

need cc build-essential
need curl curl
need python3 python3
need haproxy haproxy
need nginx nginx
need wrk wrk
need git git
node_is_recent || missing+=(nodejs)
need npm npm

# Keeps the packages of nginx and HAProxy from starting a service: tests start their own.
no_services=/usr/sbin/policy-rc.d
allow_services() {
    if [ -n "${made_policy:-}" ]; then as_root rm -f "$no_services"; fi
}

if [ ${#missing[@]} -gt 0 ]; then
    echo "   installing: ${missing[*]}"
    trap allow_services EXIT
    if [ ! -e "$no_services" ]; then
        made_policy=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$no_services" > /dev/null
        as_root chmod 755 "$no_services"
    fi
    as_root apt-get -qq update
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y --no-install-recommends install "${missing[@]}" > /dev/null
fi
if ! node_is_recent; then
    echo "Node.js $node_major_min or later is needed; this system has $(node --version || echo none)." >&2
    echo "Install a later one (https://nodejs.org) and run this again." >&2
    exit 1
fi

# The lock file pins every package by its hash; installed once, kept until it changes.
lock=examples/react-ssr/package-lock.json
stamp=examples/react-ssr/node_modules/.installed
if ! cmp -s "$lock" "$stamp"; then
    npm ci --prefix examples/react-ssr --no-audit --no-fund --loglevel=error
    cp "$lock" "$stamp"
fi
