"""The proxies that are measured, and the worker behind them: one process tree each.

A program gets a scratch folder and a free port, is pinned to a core, and is ended by its process
ids alone. Its processor time is what the kernel counts for its whole tree.
"""
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from measure import ROOT, ticks_of, tree  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
START_TIME = 15  # seconds until a program must listen
STOP_TIME = 10   # seconds until one that was asked to end is killed


class Program:
    """One program from a template beside this file, listening on `port`."""

    def __init__(self, core, command, template, **fill):
        self.folder = tempfile.mkdtemp(prefix="bench-datapath-")
        self.port, page = free_ports(2)
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        marks = {"PORT": self.port, "PAGE": page, "DIR": self.folder, "FILES": files,
                 "CONNECTIONS": (files - 200) // 2,  # two descriptors for a proxied connection
                 "USER": "user root;" if os.getuid() == 0 else "", **fill}
        config = os.path.join(self.folder, template)
        with open(os.path.join(HERE, template)) as source, open(config, "w") as target:
            target.write(re.sub("@([A-Z]+)@", lambda mark: str(marks[mark[1]]), source.read()))
        pinned = ["taskset", "-c", str(core), *command, config]
        if command[0] == "nginx":
            pinned += ["-p", self.folder, "-e", os.path.join(self.folder, "start.log")]
        self.log = os.path.join(self.folder, "output")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(pinned, stdout=log, stderr=log)
        try:
            self.until_listening()
        except BaseException:
            self.stop()
            raise

    def until_listening(self):
        end = time.monotonic() + START_TIME
        while time.monotonic() < end:
            self.must_run()
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"{self.process.args[3]} does not listen\n{self.output()}")

    def must_run(self):
        if self.process.poll() is not None:
            raise SystemExit(f"{self.process.args[3]} ended by itself\n{self.output()}")

    def output(self):
        with open(self.log, errors="replace") as log:
            return log.read()[-2000:]

    def cpu(self):
        """Seconds in user space and in the kernel so far, of the process and all below it."""
        self.must_run()
        ticks = [ticks_of(pid) for pid in tree(self.process.pid)]
        return sum(user for user, _ in ticks) / TICK, sum(kernel for _, kernel in ticks) / TICK

    def memory(self):
        """Bytes of memory in use by the process and all below it."""
        self.must_run()
        return sum(memory_of(pid) for pid in tree(self.process.pid))

    def stop(self):
        """SIGTERM, and SIGKILL for the whole tree when that does not help."""
        if self.process.poll() is None:
            pids = tree(self.process.pid)
            self.process.terminate()
            try:
                self.process.wait(STOP_TIME)
            except subprocess.TimeoutExpired:
                for pid in pids:
                    kill(pid)
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def worker(core):
    """nginx that answers `/` with 1 KB, `/64k` and `/8m` with files, and takes what is sent to
    `/post`."""
    program = Program(core, ["nginx", "-c"], "worker.conf", PAGE="x" * 1024)
    for name, size in ("64k", 64 << 10), ("8m", 8 << 20):
        with open(os.path.join(program.folder, name), "wb") as file:
            file.write(b"x" * size)
    return program


def haproxy(core, worker_port, case, _slots):
    # Without the option it would send a body on as it comes; the others collect it first.
    option = "option http-buffer-request" if case.startswith("post") else "option http-keep-alive"
    return haproxy_with(core, worker_port, option)


def haproxy_splice(core, worker_port, _case, _slots):
    """HAProxy that moves the bytes of answers through pipes, whose descriptors it wants, too."""
    return haproxy_with(core, worker_port, "option splice-response", CONNECTIONS=4000)


def haproxy_with(core, worker_port, option, **fill):
    command = ["haproxy", "-db", "-f"]
    return Program(core, command, "haproxy.cfg", WORKER=worker_port, OPTION=option, **fill)


def nginx(core, worker_port, _case, _slots):
    return Program(core, ["nginx", "-c"], "nginx.conf", WORKER=worker_port)


def spillgate(core, worker_port, _case, slots, shards=1, route="/"):
    command = [spillgate_binary(), "serve", "--config"]
    program = Program(core, command, "spillgate.toml", WORKER=worker_port, SLOTS=slots,
                      SHARDS=shards, ROUTE=route)
    program.access_log = os.path.join(program.folder, "access.log")
    return program


def spillgate_two_shards(core, worker_port, case, slots):
    """Two threads. On a machine with two cores one of them shares its core with the load."""
    return spillgate(f"{core},{core - 1}", worker_port, case, slots, shards=2)


def spillgate_refusing(core, worker_port, case, slots):
    """No route leads anywhere, so that every request is refused on its kept connection."""
    program = spillgate(core, worker_port, case, slots, route="/elsewhere")
    program.refuses = True
    return program


PEERS = {"haproxy": haproxy, "haproxy-splice": haproxy_splice, "nginx": nginx,
         "spillgate": spillgate, "spillgate-2-shards": spillgate_two_shards,
         "spillgate-refusing": spillgate_refusing}
PEERS_USUAL = ["haproxy", "nginx", "spillgate"]


def spillgate_binary():
    return os.environ.get("SPILLGATE", os.path.join(ROOT, "target/release/spillgate"))


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


def memory_of(pid):
    try:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
