"""The results as Markdown: the latest row of each case, crowd, slots and peer."""
import json

HEAD = ("| case | connections | slots | peer | CPU µs / request | user | kernel | ratio "
        "| rate /s | errors | logged |")


def markdown(path, cases):
    with open(path) as lines:
        rows = [json.loads(line) for line in lines]
    latest = {(row["case"], row["connections"], row["slots"], row["proxy"]): row for row in rows}
    order = list(cases)
    keys = sorted(latest, key=lambda key: (order.index(key[0]), *key[1:]))
    text = [HEAD, "|" + "---|" * (HEAD.count("|") - 1)]
    text += [line(latest[key]) for key in keys]
    facts = {"{machine}; {versions}; tree {commit}; {rounds} × {seconds} s".format(**row)
             for row in latest.values()}
    text += ["", *sorted(facts)]
    return "\n".join(text)


def line(row):
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    logged = "" if row["logged"] is None else f"{100 * row['logged']:.1f} %"
    cells = [row["case"], row["connections"], row["slots"], row["proxy"], row["us_per_request"],
             row["user"], row["sys"], ratio, round(row["rate"]), row["errors"], logged]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
