"""What is answered in time when more is asked than the workers can do: Spillgate and its peers.

    bench/run.sh overload                              everything, one round (a quarter of an hour)
    bench/run.sh overload curve classes --seeds 1 2 3  two cases, three rounds
    bench/run.sh overload --table                      only tables and chart of what was measured
    bench/run.sh overload --compare-sim                what was measured against the simulator

SPILLGATE names the binary; ENVOY one of Envoy, which is left out without it; OVERLOAD the program
that is workers and clients (default: its release build in this folder).
"""
import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys

import chart
import compare
import peers
import table
from cases import CASES
from peers import PEERS, Setup
from measure import ROOT, commit, keep, machine, ticks_of

RESULTS = os.path.join(ROOT, "bench/results/overload.jsonl")
CHART = os.path.join(ROOT, "docs/overload.svg")
FILES = 20_000   # open files, for the crowd at ten times the capacity
SATURATED = 1.4  # from this load on workers are never idle, so that their turnaround can be seen


class Run:
    """Workers and clients of one plan; the proxy comes between them."""

    def __init__(self, plan):
        self.process = subprocess.Popen([program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.say(json.dumps(plan))

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{program()} ended with {self.process.wait()}")
        return json.loads(line)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def program():
    built = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                         "target/release/spillgate-overload")
    return os.environ.get("OVERLOAD", built)


def measure(point, peer, plan):
    """One run of one peer."""
    run = Run(plan)
    proxy = None
    try:
        workers = run.hear()
        setup = Setup(workers, plan["slo_ms"], point.service_ms, len(plan["classes"]) > 1,
                      len(plan["tenants"]) > 1)
        proxy = PEERS[peer](setup)
        cpu, (busy, ticks) = proxy.cpu(), machine_ticks()
        run.say(f"127.0.0.1:{proxy.port}")
        found = run.hear()
        busy_after, ticks_after = machine_ticks()
        found["bench_cpu_s"] = round(sum(ticks_of(run.process.pid)) / peers.TICK, 2)
        found["proxy_cpu_s"] = round(proxy.cpu() - cpu, 2)
        found["machine_busy"] = round((busy_after - busy) / max(1, ticks_after - ticks), 2)
        answered = found["workers"]["answered"]
        # Work that no client had any use of.
        found["wasted"] = round(max(0, answered - found["good"]) / max(1, answered), 4)
        return found
    finally:
        run.stop()
        if proxy:
            proxy.stop()


def ideals(point, seed, seconds, turnaround):
    """The ideal tier with the same arrivals, without and with the time between two requests."""
    for order in point.orders:
        for lost in (0, turnaround):
            if lost is None:
                continue
            plan = point.plan(seed, seconds)
            run = Run({**plan, "faults": [], "ideal": {"order": order, "turnaround_us": lost}})
            try:
                name = f"optimum, {order}" + (f", {lost} µs" if lost else "")
                yield {"peer": name, "turnaround_us": lost, **run.hear()}
            finally:
                run.stop()


def run_all(chosen):
    """Measures, prints and keeps each row; what did not hold."""
    facts = {"commit": commit(), "machine": machine(), "versions": peers.versions(chosen.peers)}
    broken = []
    for seed in chosen.seeds:
        for case in chosen.case:
            turnarounds = []
            for number, point in enumerate(CASES[case]):
                if chosen.points and point.name not in chosen.points:
                    continue
                # Drift must not always favour the same one.
                order = chosen.peers[::1 if (number + seed) % 2 == 0 else -1]
                for peer in order:
                    plan = point.plan(seed, chosen.seconds)
                    found = measure(point, peer, plan)
                    broken += breaches(case, point, peer, found)
                    if peer == "spillgate" and plan["phases"][0][0] >= SATURATED:
                        turnarounds.append(found["workers"]["turnaround_us"])
                    row = row_of(case, point, seed, {"peer": peer, **found}, facts)
                    keep(chosen.out, row)
                    show(row)
            seen = [one for one in turnarounds if one is not None]
            turnaround = round(statistics.median(seen)) if seen else None
            for point in CASES[case]:
                if chosen.points and point.name not in chosen.points:
                    continue
                for found in ideals(point, seed, chosen.seconds, turnaround):
                    row = row_of(case, point, seed, found, facts)
                    keep(chosen.out, row)
                    show(row)
    return broken


def row_of(case, point, seed, found, facts):
    load = max(load for load, _ in point.phases)
    return {"case": case, "point": point.name, "load": load, "seed": seed, **found, **facts}


def breaches(case, point, peer, found):
    """What must hold in any run, however slow the machine."""
    where = f"{case} {point.name}, {peer}"
    if found["ended"] != found["requests"]:
        yield f"{where}: {found['requests']} requests, {found['ended']} ended"
    inside = found["workers"]["inside_max"]
    if peer == "spillgate" and inside > 1:
        yield f"{where}: {inside} requests inside a worker that takes one"


def show(row):
    every = row["groups"].get("all", {})
    print(f"{row['case']:9} {row['point']:16} {row['peer']:26} goodput {row['goodput']:.3f}  "
          f"p99 {every.get('p99_ms')} ms  failed {every.get('failed')}  "
          f"inside {row.get('workers', {}).get('inside_max', '-')}  lag {row['lag_p99_ms']} ms  "
          f"busy {row.get('machine_busy', '-')}", flush=True)


def machine_ticks():
    """Busy and all clock ticks of all cores."""
    with open("/proc/stat") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", help=f"of: {', '.join(CASES)}; default: all")
    parser.add_argument("--points", nargs="+", help="only these points of the cases")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=peers.installed(),
                        help="default: %(default)s")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1],
                        help="a round for each; default: %(default)s")
    parser.add_argument("--seconds", type=float, help="shorten each phase to this")
    parser.add_argument("--out", default=RESULTS, help="file that the rows are added to")
    parser.add_argument("--chart", help="where the chart goes; default: docs/overload.svg with "
                        "the default of --out, else none")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--compare-sim", action="store_true",
                        help="measure nothing; what was measured of Spillgate against what its "
                        "simulator says")
    chosen = parser.parse_args()
    unknown = [case for case in chosen.case if case not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    chosen.case = chosen.case or list(CASES)
    if chosen.out == RESULTS:
        chosen.chart = chosen.chart or CHART
    return chosen


def main():
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every `finally` runs
    os.makedirs(os.path.dirname(os.path.abspath(chosen.out)), exist_ok=True)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = FILES if allowed == resource.RLIM_INFINITY else min(allowed, FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, allowed))
    broken = [] if chosen.table or chosen.compare_sim else run_all(chosen)
    if os.path.exists(chosen.out):
        with open(chosen.out) as lines:
            rows = [json.loads(line) for line in lines]
        if chosen.compare_sim:
            print(compare.markdown(rows, peers.spillgate_binary()))
            return
        print(table.markdown(rows))
        if chosen.chart:
            with open(chosen.chart, "w") as target:
                target.write(chart.svg(rows))
    if broken:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
