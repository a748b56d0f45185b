"""Goodput and tail against load, as an SVG that stands on light and on dark pages.

Two panels with one legend; the load is on a logarithmic axis. Each peer has a colour and a mark of
its own, so that neither eye nor printer needs the colours.
"""
import math

import table
from cases import LOADS

WIDTH, HEIGHT = 760, 640
LEFT, RIGHT = 64, 736
PANELS = [
    ("answered in time, multiple of the capacity", 84, 300, 0, 1.1, (0, 0.25, 0.5, 0.75, 1)),
    ("p99 of what was answered in time, ms", 372, 588, 0, 220, (0, 50, 100, 150, 200)),
]
# Okabe and Ito's colours (2008), told apart by all kinds of eyes, and for dark pages lighter ones
# of the same hue.
STYLE = {
    "spillgate": ("#0060a8", "#56b4e9", "circle"),
    "haproxy-tuned": ("#b34700", "#f0a050", "square"),
    "haproxy": ("#8a3d6b", "#dd9ac4", "cross"),
    "nginx": ("#00735a", "#3fd0a4", "triangle"),
    "envoy": ("#8a7000", "#e8d44a", "diamond"),
    "optimum": ("#777777", "#9a9a9a", None),
}
LABELS = {"spillgate": "Spillgate", "haproxy-tuned": "HAProxy, tuned by hand",
          "haproxy": "HAProxy", "nginx": "nginx", "envoy": "Envoy", "optimum": "optimum"}


def svg(rows):
    rows = [row for row in table.latest(rows) if row["case"] == "curve"]
    lines = {name: of for name, of in
             ((name, of_peer(rows, name)) for name in STYLE) if of}
    parts = [head(lines)]
    for index, panel in enumerate(PANELS):
        parts.append(frame(*panel))
        for name in reversed(lines):  # the first one is drawn last, above the others
            parts.append(line(name, [(load, both[index]) for load, both in lines[name]], panel))
    parts.append("</svg>\n")
    return "\n".join(parts)


def of_peer(rows, name):
    """Goodput and p99 for each load."""
    found = []
    for load in LOADS:
        here = [row for row in rows if row["load"] == load]
        if name == "optimum":
            orders = {row["peer"] for row in here
                      if table.is_ideal(row["peer"]) and "µs" not in row["peer"]}
            both = [figures(here, order) for order in orders]
            # The most goodput at this load; of orders that are as good as each other, the quickest.
            best = max(both, key=lambda one: (round(one[0], 2), -one[1]), default=None)
        else:
            best = figures(here, name)
        if best and best[0] is not None:
            found.append((load, best))
    return found


def figures(rows, peer):
    some = [row for row in rows if row["peer"] == peer]
    return table.figure(some, "goodput"), table.figure(some, "groups", "all", "p99_ms")


def head(lines):
    light = "\n".join(f".{name} {{ --ink: {style[0]}; }}" for name, style in STYLE.items())
    dark = "\n".join(f".{name} {{ --ink: {style[1]}; }}" for name, style in STYLE.items())
    legend = []
    for index, name in enumerate(lines):
        x, y = LEFT + 230 * (index % 3), 18 + 22 * (index // 3)
        legend.append(f'<g class="{name}"><path class="line" d="M{x} {y}h28"/>'
                      f'{mark(name, x + 14, y)}<text x="{x + 36}" y="{y + 4}">{LABELS[name]}</text>'
                      "</g>")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"
     aria-label="Goodput and p99 against load, for each proxy">
<style>
:root {{ --text: #333333; --grid: #d8d8d8; }}
{light}
@media (prefers-color-scheme: dark) {{
:root {{ --text: #d4d4d4; --grid: #444444; }}
{dark}
}}
text {{ font: 13px system-ui, sans-serif; fill: var(--text); }}
.grid {{ stroke: var(--grid); fill: none; }}
.line {{ stroke: var(--ink); fill: none; stroke-width: 2.2; stroke-linejoin: round; }}
.optimum .line {{ stroke-dasharray: 6 4; }}
.mark {{ fill: var(--ink); stroke: var(--ink); stroke-width: 1.6; }}
</style>
{chr(10).join(legend)}"""


def frame(title, top, bottom, low, high, ticks):
    parts = [f'<text x="{LEFT}" y="{top - 12}" style="font-weight: 600">{title}</text>']
    for tick in ticks:
        y = height(tick, top, bottom, low, high)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>'
                     f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for load in LOADS:
        x = across(load)
        parts.append(f'<path class="grid" d="M{x:.1f} {bottom}v5"/>'
                     f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{load:g}×</text>')
    parts.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{bottom + 40}" text-anchor="middle">'
                 "asked, multiple of the capacity</text>")
    return "\n".join(parts)


def line(name, values, panel):
    """One peer's line and marks; it has gaps where nothing was answered in time."""
    _, top, bottom, low, high, _ = panel
    path, marks, is_open = [], [], False
    for load, value in values:
        if value is None:
            is_open = False
            continue
        x, y = across(load), height(value, top, bottom, low, high)
        path.append(f"{'L' if is_open else 'M'}{x:.1f} {y:.1f}")
        marks.append(mark(name, x, y))
        is_open = True
    return f'<g class="{name}"><path class="line" d="{"".join(path)}"/>{"".join(marks)}</g>'


def mark(name, x, y):
    shape = STYLE[name][2]
    paths = {"square": "m-4 -4h8v8h-8z", "triangle": "m0 -5l5 9h-10z",
             "cross": "m-4 -4l8 8m-8 0l8 -8", "diamond": "m0 -5l5 5l-5 5l-5 -5z"}
    if shape == "circle":
        return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    return f'<path class="mark" d="M{x:.1f} {y:.1f}{paths[shape]}"/>' if shape else ""


def across(load):
    low, high = math.log(LOADS[0]), math.log(LOADS[-1])
    return LEFT + 16 + (math.log(load) - low) / (high - low) * (RIGHT - LEFT - 32)


def height(value, top, bottom, low, high):
    return bottom - (value - low) / (high - low) * (bottom - top)
