"""The results as Markdown, one table a case: medians over the latest run of each seed."""
import statistics

from cases import CASES


def markdown(rows):
    rows = latest(rows)
    tables = [TABLES[case](rows) for case in CASES if any(row["case"] == case for row in rows)]
    facts = {"{machine}; {versions}; tree {commit}".format(**row)
             for row in rows if not is_ideal(row["peer"])}
    return "\n\n".join([*tables, "\n".join(sorted(facts))])


def latest(rows):
    found = {(row["case"], row["point"], row["peer"], row["seed"]): row for row in rows}
    return list(found.values())


def is_ideal(peer):
    return peer.startswith("optimum")


def names(rows, case, with_turnaround=False):
    """The peers of a case in the order of the first run; the optimum last."""
    found = dict.fromkeys(row["peer"] for row in rows if row["case"] == case)
    order = ["spillgate", "haproxy-tuned", "haproxy", "nginx", "envoy"]
    ideal = [name for name in found if is_ideal(name) and (with_turnaround or "µs" not in name)]
    return [name for name in order if name in found] + sorted(ideal)


def points(rows, case):
    return [point.name for point in CASES[case]
            if any(row["case"] == case and row["point"] == point.name for row in rows)]


def chosen(rows, case, point, peer):
    return [row for row in rows if (row["case"], row["point"], row["peer"]) == (case, point, peer)]


def median(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def figure(rows, *path):
    """The median over the rounds of one figure, by its path in a row."""
    return median([value_at(row, path) for row in rows])


def value_at(row, path):
    for name in path:
        row = (row or {}).get(name)
    return row


def text(value, digits=0, unit=""):
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def share(rows, group):
    """Per cent of the tries of a group that were answered in time."""
    shares = [100 * one["good"] / one["tries"]
              for one in (row["groups"].get(group) for row in rows) if one and one["tries"]]
    return text(median(shares), 1, " %")


def inside(rows):
    return text(max((value_at(row, ("workers", "inside_max")) for row in rows
                     if "workers" in row), default=None))


def wasted(rows):
    value = figure(rows, "wasted")
    return text(None if value is None else 100 * value, 1, " %")


def rows_of(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(line) + " |" for line in lines)])


def curve(rows):
    loads = points(rows, "curve")
    lines = []
    for peer in names(rows, "curve"):
        runs = [chosen(rows, "curve", load, peer) for load in loads]
        cells = [text(figure(some, "goodput"), 2)
                 + f" ({text(figure(some, 'groups', 'all', 'p99_ms'))})" for some in runs]
        every = [row for some in runs for row in some]
        most_wasted = [row["wasted"] for row in every if "wasted" in row]
        worst = text(100 * max(most_wasted), 1, " %") if most_wasted else "–"
        lines.append([peer, *cells, inside(every), worst])
    return rows_of(["goodput (p99 ms)", *loads, "inside", "most wasted"], lines)


def recovery(rows):
    lines = []
    for peer in names(rows, "recovery"):
        cells = []
        for point in points(rows, "recovery"):
            some = chosen(rows, "recovery", point, peer)
            back = [value_at(row, ("recovery", "back_s")) for row in some]
            # One run that never came back is never.
            when = "never" if None in back or not back else text(max(back), 1, " s")
            cells += [share(some, "phase 1"), when,
                      text(figure(some, "recovery", "last_failure_s"), 1, " s"),
                      text(figure(some, "recovery", "failed_after")), inside(some)]
        lines.append([peer, *cells])
    head = [f"{point}: {name}" for point in points(rows, "recovery")
            for name in ("good in it", "back after", "last failure", "failed after", "inside")]
    return rows_of(["clients that retry", *head], lines)


def classes(rows):
    lines = []
    for peer in names(rows, "classes"):
        some = chosen(rows, "classes", "12x", peer)
        cells = [share(some, f"class {one}")
                 + f" ({text(figure(some, 'groups', f'class {one}', 'p99_ms'))})"
                 for one in range(4)]
        lines.append([peer, *cells, text(figure(some, "goodput"), 2), inside(some), wasted(some)])
    return rows_of(["in time (p99 ms)", *(f"class {one}" for one in range(4)), "goodput", "inside",
                    "wasted"], lines)


def bimodal(rows):
    lines = []
    for peer in names(rows, "bimodal"):
        some = chosen(rows, "bimodal", "0.8x", peer)
        lines.append([peer, *(text(figure(some, "groups", "/fast", name), 1)
                              for name in ("p50_ms", "p99_ms", "p999_ms")),
                      text(figure(some, "groups", "/slow", "p99_ms")),
                      text(figure(some, "groups", "all", "failed")), inside(some)])
    return rows_of(["two kinds of request, ms", "fast p50", "fast p99", "fast p99.9", "slow p99",
                    "failed", "inside"], lines)


def tenants(rows):
    lines = []
    for peer in names(rows, "tenants"):
        some = chosen(rows, "tenants", "one greedy", peer)
        small = []
        for row in some:
            groups = [row["groups"].get(f"tenant {one}") for one in range(1, 10)]
            small.append(min((100 * one["good"] / one["tries"] for one in groups if one),
                             default=None))
        lines.append([peer, text(median(small), 1, " %"), text(figure(some, "fairness"), 3),
                      text(figure(some, "goodput"), 2), inside(some), wasted(some)])
    return rows_of(["one greedy tenant", "worst of the nine", "Jain", "goodput", "inside",
                    "wasted"], lines)


def faults(rows):
    found = points(rows, "faults")
    lines = []
    for peer in names(rows, "faults"):
        cells = []
        for point in found:
            some = chosen(rows, "faults", point, peer)
            failed = figure(some, "groups", "all", "failed")
            cells.append(f"{text(failed)} ({inside(some)})")
        lines.append([peer, *cells])
    return rows_of(["failed (inside)", *found], lines)


TABLES = {"curve": curve, "recovery": recovery, "classes": classes, "bimodal": bimodal,
          "tenants": tenants, "faults": faults}
