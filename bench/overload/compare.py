"""The simulator against what was measured: the same loads, and one number taken from the runs.

That number is the turnaround: how much longer than its service time a request takes at half the
capacity, where hardly anybody waits. Everything at the other loads is the simulator's own word.
"""
import re
import statistics
import subprocess
import tempfile

import table
from cases import CASES

SEEDS = (1, 2, 3, 4, 5)
CLASSES = ("critical", "normal", "degraded", "bulk")
SECONDS = 20
UNITS = {"ms": 1, "s": 1000, "": 1}
CALIBRATED_AT = "0.5x"
# A name, a number with a space before each three digits, and its unit or its share of the arrivals.
LINE = re.compile(r"\s+(.*?)\s{2,}(\d[\d ]*?(?:\.\d+)?)(?:\s+[\d.]+ %| ?(ms|s|/s))?\s*$")


def markdown(rows, spillgate):
    """A table of the median of each figure over the seeds, measured and simulated."""
    rows = [row for row in table.latest(rows) if row["peer"] == "spillgate"]
    turnaround = calibrate(rows)
    lines = []
    for point in CASES["curve"]:
        some = table.chosen(rows, "curve", point.name, "spillgate")
        if some:
            story = scenario(point, [(came(point, some), 1)], turnaround)
            lines.append(line(f"curve {point.name}", measured(some, "all"),
                              simulated(spillgate, story, "from 1.00 s")))
    point = CASES["classes"][0]
    some = table.chosen(rows, "classes", point.name, "spillgate")
    if some:
        load, weights = came(point, some), point.more["classes"]
        shares = [weight / sum(weights) for weight in weights]
        story = scenario(point, [(load, share) for share in shares], turnaround)
        for number, name in enumerate(CLASSES):
            lines.append(line(f"classes {point.name}, {name}", measured(some, f"class {number}"),
                              simulated(spillgate, story, f"[{name}]")))
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


def came(point, rows):
    """The load that came, which chance makes some per cent more or less than was meant."""
    seconds = sum(length for _, length in point.phases)
    capacity = point.base["workers"] * 1000 / point.service_ms
    return statistics.median(row["requests"] for row in rows) / seconds / capacity


def scenario(point, groups, turnaround):
    """The story of a point: groups are their load and the share of it."""
    base = point.base
    capacity = base["workers"] * 1000 / point.service_ms
    # Of groups the report knows only the whole, so that the first second should not count for much.
    seconds = SECONDS if len(groups) > 1 else round(sum(length for _, length in point.phases))
    text = f'name = "{point.name}"\ntime = "{seconds}s"\nmail = "{max(1, turnaround)}us"\n'
    for number, (load, share) in enumerate(groups):
        rate = load * capacity * share
        text += f'[[clients]]\nname = "{CLASSES[number]}"\nslo = "{base["slo_ms"]}ms"\n'
        # The clients of the bench come from one address.
        text += f"rate = {rate}\nusers = 1\n"
        if len(groups) > 1:
            text += f"class = {number}\n"
        else:
            # What comes in the first second is not judged, as in a run.
            text += f'steps = [{{ at = "1s", rate = {rate} }}]\n'
        text += f'paths = [{{ path = "/", service = "{round(point.service_ms * 1000)}us" }}]\n'
    return text + (f'[pool.app]\nanswer_within = "{base["slo_ms"]}ms"\n'
                   f'[pool.app.workers]\ncount = {base["workers"]}\n')


def measured(rows, group):
    shares = [1 - row["groups"][group]["good"] / row["groups"][group]["tries"] for row in rows]
    return (table.figure(rows, "groups", group, "p50_ms"),
            table.figure(rows, "groups", group, "p99_ms"), statistics.median(shares))


def simulated(spillgate, story, block):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(story)
        file.flush()
        found = [read(subprocess.run([spillgate, "sim", file.name, "--seed", str(seed)],
                                     capture_output=True, text=True, check=True).stdout, block)
                 for seed in SEEDS]
    return tuple(statistics.median(values) for values in zip(*found))


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
