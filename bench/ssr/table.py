"""The results as Markdown: the latest row of each case, crowd and peer."""
import json

HEAD = ("| case | c | peer | good | failed | p50 ms | p99 ms | max ms | rate /s | inside a worker | "
        "largest share | proxy CPU µs | fault |")


def markdown(path, titles):
    with open(path) as lines:
        rows = [json.loads(line) for line in lines]
    latest = {(row["case"], row["clients"], row["peer"]): row for row in rows}
    order = list(titles)
    keys = sorted(latest, key=lambda key: (order.index(key[0]), key[1], key[2]))
    text = [HEAD, "|" + "---|" * (HEAD.count("|") - 1)]
    text += [line(titles[key[0]], latest[key]) for key in keys]
    facts = sorted({(row["machine"], row["version"], row["commit"]) for row in latest.values()})
    text += ["", *(f"{machine}; {version}; tree {commit}" for machine, version, commit in facts)]
    return "\n".join(text)


def line(title, row):
    reasons = ", ".join(f"{count} {reason}" for reason, count in row["reasons"].items())
    failed = f"{row['failed']} ({reasons})" if reasons else str(row["failed"])
    p99 = row["p99_ms"]
    if "p99_ratio" in row:
        p99 = f"{p99} (without {row['p99_calm_ms']}; median ratio {row['p99_ratio']})"
    cells = [title, row["clients"], row["peer"], row["good"], failed, row["p50_ms"], p99, row["max_ms"],
             row["rate"], row["inside_max"], row["share_max"], row["cpu_us"], row.get("fault", "")]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
