"""Runs the cases on the peers, side by side in one run: one JSON line per case, peer and crowd.

    bench/run.sh ssr                         everything (about an hour)
    bench/run.sh ssr normal kill             these cases
    bench/run.sh ssr --peers spillgate --requests 300 --clients 13 normal
    bench/run.sh ssr --table                 only the table of what is in the results

SPILLGATE names the binary; default is the release build of this tree.
"""
import argparse
import asyncio
import itertools
import json
import os
import shutil
import sys
import tempfile

import cases
import load
import table
from cases import CASES
from peers import PEERS, Setup, tool_version
from measure import ROOT, commit, keep, machine

RESULTS = os.path.join(ROOT, "bench/results/ssr.jsonl")


async def measure(case, name, clients, requests):
    """One row: a fresh start of workers and proxies, a crowd, an orderly end."""
    scratch = tempfile.mkdtemp(prefix="bench-ssr-")
    overlaps = os.path.join(scratch, "overlaps")
    environment = {**dict(case.environment), "OVERLAP_LOG": overlaps}
    peer = PEERS[name](Setup(scratch, case.app, case.workers, environment))
    try:
        await peer.start()
        await load.warm_up(peer.port, case.workers)
        before = peer.cpu_seconds()
        found = await case.run(peer, clients, requests)
        spent = peer.cpu_seconds() - before
    finally:
        await peer.stop()
    found["inside_max"] = max(found["inside_max"], inside_most(overlaps))
    asked = found.pop("asked", found["good"] + found["failed"])
    found["cpu_us"] = round(1e6 * spent / max(1, asked))
    shutil.rmtree(scratch)
    return found


def inside_most(path):
    """The most requests that any worker reported inside it, also one that was killed since."""
    if not os.path.exists(path):
        return 0
    with open(path) as lines:
        return max((json.loads(line)["inside"] for line in lines), default=0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=" | ".join(CASES))
    parser.add_argument("--peers", default=",".join(PEERS), help="default: %(default)s")
    parser.add_argument("--clients", type=int, nargs="*", help="sizes of the crowd")
    parser.add_argument("--requests", type=int, help="requests of one run")
    parser.add_argument("--out", default=RESULTS, help="file that the rows are added to")
    parser.add_argument("--strict", action="store_true",
                        help="end with 1 where Spillgate breaks what must hold, times aside")
    parser.add_argument("--table", action="store_true", help="print the table and measure nothing")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.cases if name not in CASES]
    unknown += [name for name in chosen.peers.split(",") if name not in PEERS]
    if unknown:
        parser.error(f"no such case or peer: {', '.join(unknown)}")
    return chosen


def run_all(chosen):
    """Measures, prints and keeps each row; returns what was found broken."""
    broken = []
    facts = {"commit": commit(), "machine": f"{machine()}, {tool_version('node', '--version')}"}
    for key in chosen.cases or CASES:
        case = CASES[key]
        for clients, name in itertools.product(chosen.clients or case.clients, chosen.peers.split(",")):
            requests = chosen.requests or case.requests
            print(f"-- {key}, c = {clients}: {name}", file=sys.stderr, flush=True)
            found = asyncio.run(measure(case, name, clients, requests))
            if name == "spillgate":
                broken += [f"{key}, c = {clients}: {text}" for text in cases.broken(case, clients, found)]
            row = {"case": key, "peer": PEERS[name].name, "clients": clients, "requests": requests,
                   "workers": case.workers, **found, "version": PEERS[name].version(), **facts}
            print(keep(chosen.out, row), flush=True)
    return broken


def main():
    chosen = arguments()
    os.makedirs(os.path.dirname(os.path.abspath(chosen.out)), exist_ok=True)
    broken = [] if chosen.table else run_all(chosen)
    if os.path.exists(chosen.out):
        print(table.markdown(chosen.out, {key: case.title for key, case in CASES.items()}))
    for text in broken:
        print(f"must not be: {text}", file=sys.stderr)
    sys.exit(bool(broken and chosen.strict))


if __name__ == "__main__":
    main()
