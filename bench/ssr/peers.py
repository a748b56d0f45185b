"""What is measured: nginx before HAProxy as Airbnb published it, and Spillgate.

A peer starts workers and proxies, tells its port, and can restart its workers one by one. Both
get the same worker program, the same number of workers, and a supervisor with the same patience.
"""
import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
import time

from workers import START_TIME, STALL_TIME, STOP_TIME, Workers, free_ports, until_listening

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from measure import ROOT, ticks_of, tree  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")


class Setup:
    """One start of workers and proxies."""

    def __init__(self, folder, app, workers, environment):
        self.folder = folder              # scratch
        self.app = os.path.join(ROOT, "examples", app)
        self.workers = workers
        self.environment = environment

    def write(self, name, template, **fill):
        """Fills `@NAME@` marks of a template beside this file."""
        with open(os.path.join(HERE, template)) as source:
            text = source.read()
        for mark, value in fill.items():
            text = text.replace(f"@{mark}@", str(value))
        path = os.path.join(self.folder, name)
        with open(path, "w") as target:
            target.write(text)
        return path


class NginxHaproxy:
    name = "nginx+HAProxy"

    def __init__(self, setup):
        self.setup = setup
        self.workers = Workers(setup.workers, setup.app, setup.environment)
        self.port, self.inner, self.page = free_ports(3)
        self.processes = []

    @staticmethod
    def version():
        return f"{tool_version('nginx', '-v')}, {tool_version('haproxy', '-v')}"

    async def start(self):
        await self.workers.start()
        servers = "\n".join(f"  server worker{index} 127.0.0.1:{port} maxconn 1"
                            for index, port in enumerate(self.workers.ports, 1))
        haproxy = self.setup.write("haproxy.cfg", "haproxy.cfg", PORT=self.inner, PAGE=self.page,
                                   SERVERS=servers)
        user = "user root;" if os.getuid() == 0 else ""
        files = min(1048576, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        nginx = self.setup.write("nginx.conf", "nginx.conf", DIR=self.setup.folder, USER=user,
                                 FILES=files, PORT=self.port, INNER=self.inner)
        self.processes.append(await spawn(self.setup, "haproxy", "-db", "-f", haproxy))
        self.processes.append(
            await spawn(self.setup, "nginx", "-p", self.setup.folder, "-c", nginx))
        await until_listening(self.inner)
        await until_listening(self.port)

    async def stop(self):
        for process in self.processes:
            await end(process)
        await self.workers.stop()

    def worker_pids(self):
        return self.workers.pids()

    async def restart_rolling(self):
        await self.workers.restart_rolling()

    def cpu_seconds(self):
        """Processor time of the proxies so far."""
        return cpu_seconds(pid for process in self.processes for pid in tree(process.pid))


class Spillgate:
    name = "Spillgate"

    def __init__(self, setup):
        self.setup = setup
        self.port, self.page = free_ports(2)
        self.process = None
        self.socket = os.path.join(setup.folder, "ctl.sock")

    @staticmethod
    def binary():
        return os.environ.get("SPILLGATE", os.path.join(ROOT, "target/release/spillgate"))

    @staticmethod
    def version():
        return tool_version(Spillgate.binary(), "--version")

    async def start(self):
        config = self.setup.write("spillgate.toml", "spillgate.toml", PORT=self.port, PAGE=self.page,
                                  DIR=self.setup.app, SCRATCH=self.setup.folder, SOCKET=self.socket,
                                  WORKERS=self.setup.workers, STALL=f"{STALL_TIME:.0f}s",
                                  STOP=f"{STOP_TIME:.0f}s")
        self.process = await spawn(self.setup, self.binary(), "serve", "--config", config)
        await until_listening(self.port)
        await until(lambda: len(self.worker_pids()) == self.setup.workers)

    async def stop(self):
        if self.process:
            await end(self.process)

    def worker_pids(self):
        """Its children, less the one that is Spillgate itself (it outlives a killed Spillgate to
        take the workers along)."""
        own = executable(self.process.pid)
        return [pid for pid in children(self.process.pid) if executable(pid) not in (own, None)]

    async def restart_rolling(self):
        """Returns when every worker is another process than before."""
        old = set(self.worker_pids())
        command = await asyncio.create_subprocess_exec(
            self.binary(), "ctl", "--socket", self.socket, "restart", "app")
        if await command.wait() != 0:
            raise RuntimeError("spillgate ctl restart failed")
        await until(lambda: not old & set(self.worker_pids()), seconds=120)

    def cpu_seconds(self):
        return cpu_seconds([self.process.pid])


PEERS = {"nginx-haproxy": NginxHaproxy, "spillgate": Spillgate}


async def spawn(setup, *command):
    log = open(os.path.join(setup.folder, os.path.basename(command[0]) + ".log"), "wb")
    return await asyncio.create_subprocess_exec(
        *command, stdout=log, stderr=log, env={**os.environ, **setup.environment})


async def end(process):
    if process.returncode is not None:
        raise RuntimeError(f"a proxy ended by itself with {process.returncode}")
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), 40)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()


async def until(condition, seconds=START_TIME):
    end_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end_at:
            raise RuntimeError("a worker did not come in time")
        await asyncio.sleep(0.05)


def children(pid):
    """Process ids whose parent is `pid`, whichever thread of it started them."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as listing:
            found += [int(child) for child in listing.read().split()]
    return found


def executable(pid):
    """What `pid` runs; none when it has just ended."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def cpu_seconds(pids):
    return sum(sum(ticks_of(pid)) for pid in pids) / TICK


def tool_version(*command):
    """The name and number that a program prints of itself."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    number = re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)
    return f"{os.path.basename(command[0])} {number.group() if number else '?'}"
