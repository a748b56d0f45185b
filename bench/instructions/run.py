"""Instructions of one warm exchange, by part of the program, compared with what was kept.

    bench/run.sh instructions            count and compare; ends with 1 where a part has grown
    bench/run.sh instructions --keep     count and keep

valgrind counts what Spillgate executes, so neither the machine's load nor its speed matters, only
the compiler and the code. What the kernel does is not in it.
"""
import argparse
import collections
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "datapath"))

import peers  # noqa: E402

KEPT = os.path.join(os.path.dirname(HERE), "results/instructions.json")
MARGIN = 0.03
WARM_UP, EXCHANGES = 500, 2_000
FIELDS = ("Host: site.example\r\n"
          "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0\r\n"
          "Accept: text/html,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br\r\n"
          "Cookie: visit=8f14e45fceea167a5a36dedd4bea2543\r\n")
CASES = {
    "get1k": ("/", f"GET / HTTP/1.1\r\n{FIELDS}\r\n"),
    "post2k": ("/", f"POST /post HTTP/1.1\r\n{FIELDS}Content-Length: 2000\r\n\r\n{'x' * 2000}"),
    "refused": ("/elsewhere", f"GET / HTTP/1.1\r\n{FIELDS}\r\n"),
}
# A part is told by the source file of an instruction, wherever it was inlined.
PARTS = ["crates/wire", "crates/core", "crates/runtime", "crates/proxy", "httparse", "tokio"]


def count(worker_port, route, request):
    """Instructions per exchange, by part."""
    with tempfile.TemporaryDirectory(prefix="bench-instructions-") as folder:
        counted = os.path.join(folder, "counted")
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no",
                   f"--callgrind-out-file={counted}", peers.spillgate_binary(), "serve",
                   "--config"]
        proxy = peers.Program(0, command, "spillgate.toml", WORKER=worker_port, SLOTS=10_000,
                              SHARDS=1, ROUTE=route)
        try:
            with socket.create_connection(("127.0.0.1", proxy.port)) as link:
                ask(link, request, WARM_UP)
                control(proxy, "on")
                ask(link, request, EXCHANGES)
                control(proxy, "off")
        finally:
            proxy.stop()
        return parts_of(counted)


def ask(link, request, times):
    for _ in range(times):
        link.sendall(request.encode())
        answer = b""
        while not is_whole(answer):
            piece = link.recv(65536)
            if not piece:
                raise SystemExit("the connection was closed")
            answer += piece


def is_whole(answer):
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(end) and len(body) >= int(length.group(1) if length else 0)


def control(proxy, state):
    subprocess.run(["callgrind_control", "-i", state, str(proxy.process.pid)], check=True,
                   stdout=subprocess.DEVNULL)


def parts_of(path):
    """Reads callgrind's own format: file names may be told once and then meant by number."""
    names, part, is_call = {}, "other", False
    found = collections.Counter()
    with open(path) as lines:
        for line in lines:
            file = re.match(r"f[lie]=(\(\d+\))(?: (.*))?$", line)
            if file:
                names.setdefault(file.group(1), file.group(2) or "")
                part = part_named(names[file.group(1)])
            elif line.startswith("calls="):
                is_call = True  # the next line is what was called, and counted there
            elif re.match(r"[+\-*\d]", line):
                if not is_call:
                    found[part] += int(line.split()[1])
                is_call = False
    found["all"] = sum(found.values())
    return {part: round(found[part] / EXCHANGES) for part in [*PARTS, "other", "all"]}


def part_named(file):
    return next((part for part in PARTS if f"/{part}" in file), "other")


def compare(found, kept):
    """Prints both; how many parts have grown by more than the margin."""
    grown = 0
    for case, parts in found.items():
        for part, now in parts.items():
            before = kept.get(case, {}).get(part)
            mark = ""
            # A few instructions more in a small part are no finding.
            if before is not None and now > before * (1 + MARGIN) + 20:
                grown, mark = grown + 1, "  GROWN"
            print(f"{case:8} {part:15} {now:7} {'-' if before is None else before:>7}{mark}")
    return grown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="keep what was counted")
    chosen = parser.parse_args()
    for program in ("valgrind", "callgrind_control", "nginx"):
        if not shutil.which(program):
            raise SystemExit(f"missing: {program}; install with: apt-get install valgrind nginx")
    worker = peers.worker(0)
    try:
        found = {case: count(worker.port, *what) for case, what in CASES.items()}
    finally:
        worker.stop()
    kept = {}
    if os.path.exists(KEPT):
        with open(KEPT) as file:
            kept = json.load(file)
    grown = compare(found, kept)
    if chosen.keep:
        with open(KEPT, "w") as file:
            json.dump(found, file, indent=1)
            file.write("\n")
    elif grown:
        sys.exit(f"{grown} counts are more than {MARGIN:.0%} above those kept; if that is meant, "
                 "keep them with --keep")


if __name__ == "__main__":
    main()
