"""Memory of a proxy with thousands of idle kept connections, and after a burst over them.

Each connection asks once and is then silent. Two descriptors of the limit go to each, one here and
one in the proxy, and as many again may be needed to the worker in the burst.
"""
import resource
import socket
import time

from peers import PEERS

REQUEST = (b"GET / HTTP/1.1\r\nHost: site.example\r\nUser-Agent: bench\r\nAccept: */*\r\n"
           b"Cookie: visit=8f14e45fceea167a5a36dedd4bea2543\r\n\r\n")
CONNECTIONS_MAX = 9_500
BURST_SHARE = 0.42  # some 4,000 of them at once
WARM_UP = 20
REST_TIME = 3  # seconds of silence before memory is read


def rows_of(names, core, worker_port):
    """One row for each proxy, one proxy after the other."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = min(CONNECTIONS_MAX, (files - 500) // 2)
    for name in names:
        proxy = PEERS[name](core, worker_port, "get1k", 10_000)
        try:
            yield {"proxy": name, "connections": count, **measure(proxy, count)}
        finally:
            proxy.stop()


def measure(proxy, count):
    links = [Link(proxy.port, number) for number in range(WARM_UP)]
    for link in links:
        link.ask()
        link.receive()
    time.sleep(REST_TIME)
    found = {"before": proxy.memory()}
    for number in range(count):
        links.append(Link(proxy.port, number))
        links[-1].ask()
        links[-1].receive()
    time.sleep(REST_TIME)
    found["idle"] = proxy.memory()
    burst = links[:int(count * BURST_SHARE)]
    for link in burst:
        link.ask()
    for link in burst:
        link.receive()
    time.sleep(REST_TIME)
    found["after_burst"] = proxy.memory()
    for link in links:
        link.socket.close()
    return found


class Link:
    """One connection, from one of several addresses, since an address has few ports."""

    def __init__(self, port, number):
        self.socket = socket.socket()
        self.socket.bind((f"127.0.0.{2 + number % 4}", 0))
        self.socket.connect(("127.0.0.1", port))

    def ask(self):
        self.socket.sendall(REQUEST)

    def receive(self):
        answer = b""
        while len(answer) < answer.find(b"\r\n\r\n") + 4 + 1024 or b"\r\n\r\n" not in answer:
            piece = self.socket.recv(65536)
            if not piece:
                raise SystemExit("a proxy closed an idle connection")
            answer += piece
