"""Processor time of a proxy per proxied request, as a ratio to HAProxy in the same round.

    bench/run.sh datapath                        everything (about twelve minutes)
    bench/run.sh datapath --case get1k --connections 64 512
    bench/run.sh datapath --slots 32 --peers haproxy,spillgate
    bench/run.sh datapath --peers spillgate,spillgate-refusing --base spillgate --case get1k
    bench/run.sh datapath --idle                 memory of idle connections instead
    bench/run.sh datapath --table                only the table of what is in the results

One thread of a proxy on one core; the worker and the load (wrk) on another. SPILLGATE names the
binary; default is the release build of this tree.
"""
import argparse
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import idle
import peers
import table
from peers import PEERS, PEERS_USUAL
from measure import ROOT, commit, keep, machine

RESULTS = os.path.join(ROOT, "bench/results/datapath.jsonl")
CASES = {"get1k": "/", "get64k": "/64k", "post10k": "/post", "get8m": "/8m"}
CONNECTIONS = [1, 8, 64, 512]
CONNECTIONS_OF = {"get8m": [32]}  # more of them hold more memory than small machines have
SLOTS_PLENTY = 10_000
REST_TIME = 0.5  # seconds until the last access records have been written
# About what a browser sends, so that heads have a usual length.
FIELDS = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "Accept-Language": "en-GB,en;q=0.7",
    "Accept-Encoding": "gzip, deflate, br",
    "Cookie": "visit=8f14e45fceea167a5a36dedd4bea2543",
}
# Set outside `request()`: wrk then builds the request once and not for each.
POST_SCRIPT = """wrk.method = "POST"
wrk.body = string.rep("x", 10240)
wrk.headers["Content-Type"] = "application/octet-stream"
"""


class Load:
    """wrk on one core, against any port."""

    def __init__(self, core, folder):
        self.core = core
        self.script = os.path.join(folder, "post.lua")
        with open(self.script, "w") as script:
            script.write(POST_SCRIPT)

    def run(self, port, case, connections, seconds):
        """Requests answered, how many of them failed, answers per second."""
        command = ["taskset", "-c", str(self.core), "wrk", "-t1", f"-c{connections}",
                   f"-d{seconds}s"]
        for name, value in FIELDS.items():
            command += ["-H", f"{name}: {value}"]
        if case.startswith("post"):
            command += ["-s", self.script]
        command.append(f"http://127.0.0.1:{port}{CASES[case]}")
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=seconds + 60)
        summary = re.search(r"(\d+) requests in ", done.stdout)
        if done.returncode != 0 or not summary:
            raise SystemExit(f"wrk failed: {done.stdout}{done.stderr}")
        failed = re.findall(r"(?:Non-2xx or 3xx responses:|connect|read|write|timeout) (\d+)",
                            done.stdout)
        rate = float(re.search(r"Requests/sec: +([\d.]+)", done.stdout).group(1))
        return int(summary.group(1)), sum(map(int, failed)), rate


def measure(proxy, load, case, connections, seconds):
    """One round of one proxy."""
    log = getattr(proxy, "access_log", None)
    if log:
        os.truncate(log, 0)  # it is opened for appending; minutes of load would fill the disk
    user, kernel = proxy.cpu()
    requests, errors, rate = load.run(proxy.port, case, connections, seconds)
    if getattr(proxy, "refuses", False):
        errors = requests - errors
    user_after, kernel_after = proxy.cpu()
    per_request = 1e6 / max(1, requests)
    found = {"user": (user_after - user) * per_request, "errors": errors, "rate": rate,
             "sys": (kernel_after - kernel) * per_request, "logged": None}
    found["us_per_request"] = found["user"] + found["sys"]
    if log:
        found["logged"] = min(1, lines_of(log) / max(1, requests))
    return found


def lines_of(path):
    """Records in the log, those included that were still on their way when the load ended."""
    time.sleep(REST_TIME)
    with open(path, "rb") as log:
        return sum(block.count(b"\n") for block in iter(lambda: log.read(1 << 20), b""))


def rounds_of(chosen, load, cores, worker_port, case, connections):
    """Per proxy, what each round found. All stand at once; only one at a time is asked."""
    started = {}
    try:
        for name in chosen.peers:
            started[name] = PEERS[name](cores[1], worker_port, case, chosen.slots)
        for proxy in started.values():
            load.run(proxy.port, case, connections, 1)  # connections, caches and branches warm
        rounds = {name: [] for name in started}
        for number in range(chosen.rounds):
            # Drift within a round must not always favour the same one.
            for name in list(started)[::1 if number % 2 == 0 else -1]:
                found = measure(started[name], load, case, connections, chosen.seconds)
                rounds[name].append(found)
        return rounds
    finally:
        for proxy in started.values():
            proxy.stop()


def rows_of(rounds, base):
    """Medians per proxy; the ratio is the median of the ratios within each round."""
    for name, found in rounds.items():
        row = {key: round(statistics.median(one[key] for one in found), 2)
               for key in ("us_per_request", "user", "sys", "rate")}
        row["ratio"] = None
        if base in rounds:
            ratios = [one["us_per_request"] / max(other["us_per_request"], 0.01)
                      for one, other in zip(found, rounds[base])]
            row["ratio"] = round(statistics.median(ratios), 3)
        shares = [one["logged"] for one in found if one["logged"] is not None]
        row["logged"] = round(min(shares), 4) if shares else None
        row["errors"] = sum(one["errors"] for one in found)
        yield {"proxy": name, **row}


def run_all(chosen, cores):
    """Measures, prints and keeps each row; returns the number of failed requests."""
    facts = {"slots": chosen.slots, "base": chosen.base, "rounds": chosen.rounds,
             "seconds": chosen.seconds, "commit": commit(), "machine": machine(), "versions": versions(chosen.peers)}
    errors = 0
    scratch = tempfile.mkdtemp(prefix="bench-datapath-")
    worker = None
    try:
        load = Load(cores[0], scratch)
        worker = peers.worker(cores[0])
        if chosen.idle:
            for row in idle.rows_of(chosen.peers, cores[1], worker.port):
                row = {"case": "idle", "slots": chosen.slots, **row, **facts}
                print(keep(chosen.out, row), flush=True)
            return 0
        for case in chosen.case:
            for connections in chosen.connections or CONNECTIONS_OF.get(case, CONNECTIONS):
                print(f"-- {case}, {connections} connections", file=sys.stderr, flush=True)
                rounds = rounds_of(chosen, load, cores, worker.port, case, connections)
                for row in rows_of(rounds, chosen.base):
                    errors += row["errors"]
                    row = {"case": case, "connections": connections, **row, **facts}
                    print(keep(chosen.out, row), flush=True)
    finally:
        if worker:
            worker.stop()
        shutil.rmtree(scratch)
    return errors


def versions(names):
    asked = {"haproxy": ["haproxy", "-v"], "nginx": ["nginx", "-v"],
             "spillgate": [peers.spillgate_binary(), "--version"], "wrk": ["wrk", "-v"]}
    told = []
    for name in dict.fromkeys([*(name.split("-")[0] for name in names), "nginx", "wrk"]):
        done = subprocess.run(asked[name], capture_output=True, text=True, check=False)
        number = re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)
        told.append(f"{name} {number.group() if number else '?'}")
    return ", ".join(told)


def prepare(names):
    """The two cores to use; ends where something is missing. Raises the limit of open files."""
    names = {name.split("-")[0] for name in names}
    if "spillgate" in names and not shutil.which(peers.spillgate_binary()):
        raise SystemExit(f"missing: {peers.spillgate_binary()}; build it, or start this with "
                         "bench/run.sh")
    missing = [name for name in ("wrk", "haproxy", "nginx", "taskset") if not shutil.which(name)]
    if missing:
        raise SystemExit(f"missing: {', '.join(missing)}; install with: ci/install.sh "
                         "(Debian, Ubuntu: apt-get install wrk haproxy nginx util-linux)")
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("two cores are needed: one for the proxy, one for the load and the worker")
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = 65536 if allowed == resource.RLIM_INFINITY else min(allowed, 65536)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, allowed))
    return cores


def count(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--connections", type=count, nargs="+",
                        help=f"default: {CONNECTIONS}; {CONNECTIONS_OF}")
    parser.add_argument("--rounds", type=count, default=5, help="default: %(default)s")
    parser.add_argument("--seconds", type=count, default=3,
                        help="length of a round; default: %(default)s")
    parser.add_argument("--peers", default=",".join(PEERS_USUAL),
                        help=f"of {', '.join(PEERS)}; default: %(default)s")
    parser.add_argument("--base", default="haproxy", choices=PEERS,
                        help="the peer that ratios are to; default: %(default)s")
    parser.add_argument("--idle", action="store_true",
                        help="memory of idle connections, and after a burst over them")
    parser.add_argument("--slots", type=count, default=SLOTS_PLENTY,
                        help="slots of Spillgate's pool; default: %(default)s, nobody waits")
    parser.add_argument("--out", default=RESULTS, help="file that the rows are added to")
    parser.add_argument("--table", action="store_true", help="print the table and measure nothing")
    chosen = parser.parse_args()
    chosen.peers = list(dict.fromkeys(chosen.peers.split(",")))
    unknown = [name for name in chosen.peers if name not in PEERS]
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}")
    return chosen


def main():
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every `finally` runs
    os.makedirs(os.path.dirname(os.path.abspath(chosen.out)), exist_ok=True)
    errors = 0 if chosen.table else run_all(chosen, prepare(chosen.peers))
    if os.path.exists(chosen.out):
        print(table.markdown(chosen.out, CASES))
    if errors:
        sys.exit(f"{errors} requests failed: the processor time of their rows says nothing")


if __name__ == "__main__":
    main()
