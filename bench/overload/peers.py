"""The proxies under test: how each is configured, started and ended.

`haproxy` is what its manual suggests for workers that take one request at a time, with a limit on
the time in the queue. `haproxy-tuned` is told by hand what each case needs, as an operator could
who knows the load beforehand; its numbers are the ones to reach.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from measure import ROOT, ticks_of, tree  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
START_TIME = 15  # seconds until a program must listen
STOP_TIME = 10   # seconds until one that was asked to end is killed
SETTLE_TIME = 0.8  # seconds from listening to the load: first health checks


@dataclass
class Setup:
    """What a configuration may know of the run."""
    workers: list      # "ADDRESS:PORT"
    slo_ms: int
    service_ms: float  # mean
    has_classes: bool
    has_tenants: bool

    @property
    def capacity(self):
        return len(self.workers) * 1000 / self.service_ms


class Proxy:
    """A running proxy, on `port`, in a folder of its own."""

    def __init__(self, command, template, marks):
        self.folder = tempfile.mkdtemp(prefix="bench-overload-")
        self.port = free_port()
        marks = {"PORT": self.port, "DIR": self.folder, **marks}
        config = os.path.join(self.folder, template)
        with open(os.path.join(HERE, template)) as source, open(config, "w") as target:
            target.write(re.sub("@([A-Z_]+)@", lambda mark: str(marks[mark[1]]), source.read()))
        command = [word.replace("CONFIG", config).replace("FOLDER", self.folder)
                   for word in command]
        self.log = os.path.join(self.folder, "output")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self.until_listening()
        except BaseException:
            self.stop()
            raise

    def until_listening(self):
        end = time.monotonic() + START_TIME
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                time.sleep(SETTLE_TIME)
                return
            except OSError:
                time.sleep(0.05)
        with open(self.log, errors="replace") as log:
            raise SystemExit(f"{self.process.args[0]} does not listen\n{log.read()[-2000:]}")

    def cpu(self):
        """Processor seconds so far, of the process and its children."""
        return sum(sum(ticks_of(pid)) for pid in tree(self.process.pid)) / TICK

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIME)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def spillgate(setup):
    # Who names a class or a tenant must be trusted to: here the clients are.
    trust = 'trusted_from = ["127.0.0.0/8"]\n' if setup.has_classes or setup.has_tenants else ""
    keys = 'class_header = "x-class"\n' if setup.has_classes else ""
    keys += 'tenant_header = "x-tenant"\n' if setup.has_tenants else ""
    workers = ", ".join(f'"{one}"' for one in setup.workers)
    return Proxy([spillgate_binary(), "serve", "--config", "CONFIG"], "spillgate.toml",
                 {"WORKERS": workers, "SLO": setup.slo_ms, "KEYS": keys,
                  "TRUST": trust})


def haproxy(setup, **tuned):
    servers = [f"  server w{number} {one}" for number, one in enumerate(setup.workers)]
    first = "http-request set-priority-class req.hdr(x-class)" if setup.has_classes else ""
    marks = {"QUEUE": setup.slo_ms, "ANSWER": 5000, "ABANDON": "option abortonclose", "DOWN": "",
             "RETRY": "conn-failure empty-response", "FIRST": first, "TABLE": "",
             "SERVERS": "\n".join(servers)}
    return Proxy(["haproxy", "-db", "-f", "CONFIG"], "haproxy.cfg", {**marks, **tuned})


def haproxy_tuned(setup):
    """Who leaves the queue after three quarters of the service level is still answered in time; a
    worker goes out at its first failure and comes back at its first good check; what failed is
    tried elsewhere; a slot stays taken while its worker works for a client that has gone."""
    tuned = {"QUEUE": setup.slo_ms * 3 // 4, "ANSWER": 500, "ABANDON": "no option abortonclose",
             "RETRY": "conn-failure empty-response response-timeout 503",
             "DOWN": "fastinter 100ms downinter 100ms observe layer7 error-limit 1 "
                     "on-error mark-down"}
    if setup.has_tenants:
        rate = int(setup.capacity / 10)
        tuned["FIRST"] = ("http-request track-sc0 req.hdr(x-tenant) table tenants\n"
                          "  http-request set-priority-class int(9) "
                          f"if {{ sc_http_req_rate(0,tenants) gt {rate} }}")
        tuned["TABLE"] = ("backend tenants\n  stick-table type string len 32 size 100k expire 10s "
                          "store http_req_rate(1s)")
    return haproxy(setup, **tuned)


def nginx(setup):
    servers = [f"        server {one} max_conns=1 max_fails=3 fail_timeout=2s;"
               for one in setup.workers]
    marks = {"USER": "user root;" if os.getuid() == 0 else "", "SLO": setup.slo_ms,
             "SERVERS": "\n".join(servers), "ZONE": "", "LIMIT": ""}
    if setup.has_tenants:
        rate = int(setup.capacity / 2)
        marks["ZONE"] = f"limit_req_zone $http_x_tenant zone=tenants:1m rate={rate}r/s;"
        marks["LIMIT"] = "limit_req zone=tenants burst=10 nodelay;"
    return Proxy(["nginx", "-p", "FOLDER", "-e", "FOLDER/start.log", "-c", "CONFIG"], "nginx.conf",
                 marks)


def envoy(setup):
    """Its queue is one per worker: only a short one keeps the unlucky within the service level."""
    hosts = [one.split(":") for one in setup.workers]
    listed = ", ".join('{"endpoint": {"address": {"socket_address": {"address": "%s", '
                       '"port_value": %s}}}}' % (address, port) for address, port in hosts)
    marks = {"HOSTS": listed, "COUNT": len(hosts), "SLO_S": setup.slo_ms / 1000,
             "PENDING": int(0.2 * setup.capacity * setup.slo_ms / 1000)}
    return Proxy([envoy_binary(), "-c", "CONFIG", "--concurrency", "1", "--disable-hot-restart",
                  "--log-level", "error"], "envoy.json", marks)


PEERS = {"spillgate": spillgate, "haproxy": haproxy, "haproxy-tuned": haproxy_tuned,
         "nginx": nginx, "envoy": envoy}


def spillgate_binary():
    return os.environ.get("SPILLGATE", os.path.join(ROOT, "target/release/spillgate"))


def envoy_binary():
    return os.environ.get("ENVOY", "")


def installed():
    """The peers that can be run here."""
    needed = {"spillgate": spillgate_binary(), "envoy": envoy_binary()}
    return [name for name in PEERS
            if shutil.which(needed.get(name, name.removesuffix("-tuned")))]


def versions(names):
    asked = {"spillgate": [spillgate_binary(), "--version"], "haproxy": ["haproxy", "-v"],
             "nginx": ["nginx", "-v"], "envoy": [envoy_binary(), "--version"]}
    told = []
    for name in dict.fromkeys(name.removesuffix("-tuned") for name in names):
        done = subprocess.run(asked[name], capture_output=True, text=True, check=False)
        number = re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)
        told.append(f"{name} {number.group() if number else '?'}")
    return ", ".join(told)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
