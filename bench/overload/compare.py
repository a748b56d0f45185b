"""The simulator against what was measured: the same arrivals, and one number taken from the runs.

That number is the turnaround: how much longer than its service time a request takes at half the
capacity, where hardly anybody waits. When clients come, and of which class they are, is as it was
in each run: what chance does to the load must not count as a mistake of either. Everything else at
the other loads is the simulator's own word.
"""
import json
import math
import os
import re
import statistics
import subprocess
import tempfile

import table
from cases import CASES

CLASSES = ("critical", "normal", "degraded", "bulk")
UNITS = {"ms": 1, "s": 1000, "": 1}
CALIBRATED_AT = "0.5x"
ADDRESSES = 64  # that the clients of the bench come from
MASK = (1 << 64) - 1
# A name, a number with a space before each three digits, and its unit or its share of the arrivals.
LINE = re.compile(r"\s+(.*?)\s{2,}(\d[\d ]*?(?:\.\d+)?)(?:\s+[\d.]+ %| ?(ms|s|/s))?\s*$")


def markdown(rows, spillgate):
    """A table of the median of each figure over the seeds, measured and simulated."""
    rows = [row for row in table.latest(rows) if row["peer"] == "spillgate"]
    turnaround = calibrate(rows)
    lines = []
    for case in ("curve", "classes"):
        for point in CASES[case]:
            some = table.chosen(rows, case, point.name, "spillgate")
            if some:
                lines += compared(case, point, some, turnaround, spillgate)
    head = ["", "p50 ms", "simulated", "p99 ms", "simulated", "not in time", "simulated"]
    return table.rows_of(head, lines) + f"\n\nturnaround: {turnaround} µs, from {CALIBRATED_AT}"


def calibrate(rows):
    """Microseconds that a request takes beside its service at half the capacity."""
    some = table.chosen(rows, "curve", CALIBRATED_AT, "spillgate")
    if not some:
        raise SystemExit(f"measure first: bench/run.sh overload curve classes; {CALIBRATED_AT} "
                         "says what the turnaround is")
    service = CASES["curve"][0].service_ms
    return round(1000 * (table.figure(some, "groups", "all", "p50_ms") - service))


def compared(case, point, rows, turnaround, spillgate):
    """The lines of a point: one for each class that came."""
    texts = [simulated(spillgate, point, row, turnaround) for row in rows]
    classes = len(point.more.get("classes", [1]))
    for number in range(classes):
        name, group = f"{case} {point.name}", "all"
        if classes > 1:
            name, group = f"{name}, {CLASSES[number]}", f"class {number}"
        found = [read(text, f"[{CLASSES[number]}]") for text in texts]
        ours = tuple(statistics.median(values) for values in zip(*found))
        yield line(name, measured(rows, group), ours)


def simulated(spillgate, point, row, turnaround):
    """What the simulator reports of one run."""
    plan = point.plan(row["seed"])
    came = arrivals(plan)
    if len(came) != row["requests"]:
        raise SystemExit(f"{row['case']} {point.name}: {row['requests']} requests were sent, and "
                         f"seed {row['seed']} draws {len(came)}")
    with tempfile.TemporaryDirectory() as folder:
        story = os.path.join(folder, "story.toml")
        with open(story, "w") as file:
            file.write(scenario(point, plan, came, turnaround, folder))
        return subprocess.run([spillgate, "sim", story, "--seed", str(row["seed"])],
                              capture_output=True, text=True, check=True).stdout


def scenario(point, plan, came, turnaround, folder):
    """The story of a run. What comes before it is judged is a group of its own."""
    warm_up, service = plan["warm_up_s"], f"{round(point.service_ms * 1000)}us"
    text = (f'name = "{point.name}"\nmail = "{max(1, turnaround)}us"\n'
            f'time = "{math.ceil(sum(length for _, length in plan["phases"]))}s"\n')
    for number in range(len(plan["classes"])):
        mine = [at for at, one in came if one == number]
        for name, some in ((CLASSES[number], [at for at in mine if at >= warm_up]),
                           (f"{CLASSES[number]} before", [at for at in mine if at < warm_up])):
            path = os.path.join(folder, f"{name}.log")
            with open(path, "w") as log:
                # A log counts from its first request, so each has one at the very beginning.
                for at in [0.0, *some]:
                    log.write(json.dumps({"time": at, "status": 200}) + "\n")
            text += (f'[[clients]]\nname = "{name}"\nclass = {number}\nusers = {ADDRESSES}\n'
                     f'patience = "{plan["slo_ms"]}ms"\nlog = {{ path = "{path}" }}\n'
                     f'paths = [{{ path = "/", service = "{service}" }}]\n')
    return text + (f'[pool.app]\nanswer_within = "{plan["slo_ms"]}ms"\n'
                   f'[pool.app.workers]\ncount = {plan["workers"]}\n')


def arrivals(plan):
    """When who came, in seconds, and of which class: what src/plan.rs draws from the seed."""
    draw = shares(plan["seed"])
    came, start = [], 0.0
    for load, seconds in plan["phases"]:
        mean = 1 / (load * plan["capacity"])
        at = start - mean * math.log(next(draw))
        while at < start + seconds:
            next(draw)  # its service
            number = weighted(next(draw), plan["classes"])
            next(draw)  # its tenant
            came.append((at, number))
            at -= mean * math.log(next(draw))
        start += seconds
    return came


def shares(state):
    """SplitMix64, as numbers above 0 and below 1."""
    while True:
        state = (state + 0x9e3779b97f4a7c15) & MASK
        mixed = ((state ^ state >> 30) * 0xbf58476d1ce4e5b9) & MASK
        mixed = ((mixed ^ mixed >> 27) * 0x94d049bb133111eb) & MASK
        yield (((mixed ^ mixed >> 31) >> 12) + 0.5) / (1 << 52)


def weighted(share, weights):
    left = share * sum(weights)
    for index, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return index
    return len(weights) - 1


def measured(rows, group):
    shares = [1 - row["groups"][group]["good"] / row["groups"][group]["tries"] for row in rows]
    return (table.figure(rows, "groups", group, "p50_ms"),
            table.figure(rows, "groups", group, "p99_ms"), statistics.median(shares))


def read(text, block):
    """p50, p99 and the share that was not answered in time, of one block of the report."""
    lines = iter(text.splitlines())
    for one in lines:
        if one.startswith(block):
            break
    figures = {}
    for one in lines:
        if not one.startswith("  "):
            break
        found = LINE.match(one)
        if found:
            number = float(found[2].replace(" ", ""))
            figures[found[1]] = number * UNITS.get(found[3] or "", 1)
    of = " of these" if "time p50 of these" in figures else ""
    came, good = figures["arrivals"], figures["answered in time"]
    return figures[f"time p50{of}"], figures[f"time p99{of}"], 1 - good / came


def line(name, real, ours):
    cells = [name]
    for index, digits in ((0, 1), (1, 1)):
        cells += [table.text(real[index], digits), table.text(ours[index], digits)
                  + apart(real[index], ours[index])]
    return cells + [f"{100 * real[2]:.1f} %", f"{100 * ours[2]:.1f} %" + apart(real[2], ours[2])]


def apart(real, ours):
    """By how much the simulator is off, in percent of what was measured."""
    return f" ({100 * (ours / real - 1):+.0f} %)" if real else ""
