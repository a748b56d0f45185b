"""A worker as a real program. Serves one connection at a time, and does what the path says.

Plain sockets and no framework, so that it starts in some 20 ms and nothing but this file decides
what happens. SIGTERM ends it at once, in the middle of whatever it does.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time


def listener():
    path = os.environ.get("SPILLGATE_SOCKET")
    if path:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
    else:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", int(os.environ["PORT"])))
    listening.listen(128)
    return listening


def notify(text):
    address = os.environ["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.connect("\0" + address[1:] if address[0] == "@" else address)
        sending.send(text.encode())


class Heart(threading.Thread):
    """Beats four times in the period that Spillgate told, until it is stopped."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopped = threading.Event()

    def run(self):
        period = int(os.environ["WATCHDOG_USEC"]) / 1e6 / 4
        while not self.stopped.wait(period):
            notify("WATCHDOG=1")


HEART = Heart()


def act(method, path):
    """Do what the path says; returns the body of the answer."""
    verb, _, rest = path.lstrip("/").partition("/")
    if verb == "exit":
        os._exit(int(rest))
    elif verb == "spin":
        while True:
            pass
    elif verb == "until":
        while not os.path.exists("/" + rest):
            time.sleep(0.002)
    elif verb == "heart":
        HEART.stopped.set()
    elif verb == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif verb == "say":
        print(f"out {rest}", flush=True)
        print(f"err {rest}", file=sys.stderr, flush=True)
    elif verb == "child":
        child = subprocess.Popen(["sleep", "1000"])
        return {"child": child.pid}
    return {"pid": os.getpid(), "method": method, "environment": dict(os.environ)}


def serve(connection):
    stream = connection.makefile("rb")
    while True:
        line = stream.readline()
        if not line:
            return
        length, closing = 0, False
        while (field := stream.readline()) not in (b"\r\n", b""):
            name, _, value = field.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            elif name.lower() == b"connection":
                closing = value.strip() == b"close"
        stream.read(length)
        method, path, _ = line.decode().split(" ")
        body = json.dumps(act(method, path)).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + (b"" if method == "HEAD" else body))
        if closing:
            return


def main():
    if os.path.exists(os.environ.get("BROKEN_IF", "")):
        sys.exit("this release does not start")
    listening = listener()
    if os.environ.get("HEART"):
        notify("READY=1\nWATCHDOG=1")
        HEART.start()
    while True:
        connection, _ = listening.accept()
        with connection:
            try:
                serve(connection)
            except OSError:
                pass


main()
