"""What the benches measure and keep in the same way: processes, the machine, the commit, rows.

Each case finds it beside `run.sh`. Absent: peers, loads and tables, which are the cases' own.
"""
import json
import os
import platform
import re
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def tree(pid):
    """`pid` and every process below it, whichever thread started them; none that has ended."""
    found = [pid]
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as listing:
                for child in listing.read().split():
                    found += tree(int(child))
    except OSError:
        pass  # it, or a thread of it, has just ended
    return found


def ticks_of(pid):
    """Clock ticks in user space and in the kernel; the name in the second field may hold blanks."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0, 0
    return int(fields[11]), int(fields[12])


def machine():
    with open("/proc/cpuinfo") as info:
        model = re.search(r"^model name\s*: (.*)$", info.read(), re.MULTILINE)
    cores = len(os.sched_getaffinity(0))
    name = model.group(1) if model else platform.machine()
    return f"{cores} cores {name}, Linux {platform.release()}"


def commit():
    asked = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def keep(path, row):
    """Add `row`, with the time, to the file at `path` as one line, and return that line."""
    row["when"] = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
    line = json.dumps(row, separators=(",", ":"))
    with open(path, "a") as out:
        out.write(line + "\n")
    return line
