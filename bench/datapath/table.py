"""The results as Markdown: the latest row of each case, crowd, slots and peer."""
import json

HEAD = ("| case | connections | slots | peer | CPU µs / request | user | kernel | ratio "
        "| rate /s | errors | logged |")


IDLE_HEAD = ("| peer | idle connections | MB before | MB with them | bytes each "
             "| MB after a burst | times |")


def markdown(path, cases):
    with open(path) as lines:
        rows = [json.loads(line) for line in lines]
    idle = [row for row in rows if row["case"] == "idle"]
    latest = {(row["case"], row["connections"], row["slots"], row.get("base", "haproxy"),
               row["proxy"]): row for row in rows if row["case"] != "idle"}
    order = list(cases)
    keys = sorted(latest, key=lambda key: (order.index(key[0]), *key[1:]))
    text = [HEAD, "|" + "---|" * (HEAD.count("|") - 1)]
    text += [line(latest[key]) for key in keys]
    facts = {"{machine}; {versions}; tree {commit}; {rounds} × {seconds} s".format(**row)
             for row in latest.values()}
    text += ["", *sorted(facts)]
    if idle:
        text += ["", IDLE_HEAD, "|" + "---|" * (IDLE_HEAD.count("|") - 1)]
        text += [idle_line(row) for row in {row["proxy"]: row for row in idle}.values()]
    return "\n".join(text)


def line(row):
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    logged = "" if row["logged"] is None else f"{100 * row['logged']:.1f} %"
    cells = [row["case"], row["connections"], row["slots"], row["proxy"], row["us_per_request"],
             row["user"], row["sys"], ratio, round(row["rate"]), row["errors"], logged]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def idle_line(row):
    before, with_them, after = (row[key] / 2**20 for key in ("before", "idle", "after_burst"))
    each = (row["idle"] - row["before"]) // row["connections"]
    return (f"| {row['proxy']} | {row['connections']} | {before:.1f} | {with_them:.1f} | {each} "
            f"| {after:.1f} | {after / with_them:.2f} |")
