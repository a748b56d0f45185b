"""The crowd: closed loops of clients that check every answer, and slow uploads beside them."""
import asyncio
import hashlib
import math
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from http1 import HASH, Client, Failed

BODY_MAX = 300_000  # bytes; the props of a large page
NOISE = random.Random(7).randbytes(1 << 20)


@dataclass
class Request:
    method: str
    path: str
    body: bytes = b""


@dataclass
class Result:
    """What became of the requests of one run."""

    times: list = field(default_factory=list)       # seconds, of good answers
    reasons: Counter = field(default_factory=Counter)  # "METHOD reason" of failed ones
    workers: Counter = field(default_factory=Counter)  # answers by worker
    inside_max: int = 0                             # as the workers report it
    pages: dict = field(default_factory=dict)       # hash of each page seen, by path
    seconds: float = 0.0

    def quantile(self, share):
        times = sorted(self.times)
        return times[min(len(times) - 1, math.ceil(share * len(times)) - 1)] if times else None


def mixed(count, seed):
    """60 % pages, 25 % posts of 1 to 300 KB, 15 % answers of 1 MB."""
    draw = random.Random(seed)
    for _ in range(count):
        kind = draw.random()
        if kind < 0.60:
            yield Request("GET", "/render")
        elif kind < 0.85:
            yield Request("POST", "/echo", body(draw, int(1000 * 300 ** draw.random())))
        else:
            yield Request("GET", "/big")


def react(count, seed):
    """Pages whole and streamed, and some posts."""
    draw = random.Random(seed)
    for _ in range(count):
        kind = draw.random()
        if kind < 0.9:
            path = "/" if kind < 0.45 else "/stream"
            yield Request("GET", f"{path}?seed={draw.randrange(50)}")
        else:
            yield Request("POST", "/echo", body(draw, BODY_MAX))


def pages(count, _seed):
    for _ in range(count):
        yield Request("GET", "/render")


def body(draw, size):
    start = draw.randrange(len(NOISE) - size)
    return NOISE[start:start + size]


async def closed_loop(port, requests, clients, stop=None):
    """`clients` at once, each asking again when it has been answered; until the requests, or `stop`."""
    result = Result()
    requests = iter(requests)
    started = time.monotonic()

    async def client():
        connection = Client(port)
        for request in requests:
            if stop and stop.is_set():
                break
            await ask_once(connection, request, result)
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    result.seconds = time.monotonic() - started
    return result


async def ask_once(connection, request, result, send=None):
    began = time.monotonic()
    try:
        answer = await connection.ask(request.method, request.path, request.body, send)
        check(request, answer, result)
    except Failed as failure:
        result.reasons[f"{request.method} {failure}"] += 1
        return
    result.times.append(time.monotonic() - began)
    result.workers[answer.headers.get("x-worker", "?")] += 1
    result.inside_max = max(result.inside_max, int(answer.headers.get("x-inside-max", 1)))


def check(request, answer, result):
    """Raises `Failed` where the answer is not the right one, byte by byte."""
    if answer.status != 200:
        raise Failed(str(answer.status))
    digest = hashlib.sha256(answer.body).hexdigest()
    if request.method == "POST":
        right = answer.body.decode("latin-1") == hashlib.sha256(request.body).hexdigest()
    elif "x-sha256" in answer.headers:
        right = digest == answer.headers["x-sha256"]
    else:  # the same page is the same from every worker
        right = digest == result.pages.setdefault(request.path, digest)
    if not right:
        raise Failed(HASH)


async def warm_up(port, workers, seconds=60):
    """Returns when each of `workers` has answered: all are there, and have compiled their code."""
    end = time.monotonic() + seconds
    seen = set()
    while len(seen) < workers:
        if time.monotonic() > end:
            raise RuntimeError(f"only {len(seen)} of {workers} workers answered")
        posts = [Request("POST", "/echo", NOISE[:1000])] * (2 * workers)
        seen |= set((await closed_loop(port, posts, workers)).workers)


async def slow_uploads(port, count, seed, seconds):
    """`count` posts of 300 KB, all begun within two seconds, each sent over a time within `seconds`.

    The work for one takes 50 ms, so that the crowd loads the workers little and only its slowness
    is tried.
    """
    draw = random.Random(seed)
    result = Result()
    crowd = [(draw.uniform(0, 2), draw.uniform(*seconds), body(draw, BODY_MAX)) for _ in range(count)]
    await asyncio.gather(*(slow_upload(port, *one, result) for one in crowd))
    return result


async def slow_upload(port, begin, seconds, data, result, parts=30):
    async def send(writer, whole):
        step = -(-len(whole) // parts)
        for start in range(0, len(whole), step):
            writer.write(whole[start:start + step])
            await writer.drain()
            await asyncio.sleep(seconds / parts)

    await asyncio.sleep(begin)
    connection = Client(port)
    await ask_once(connection, Request("POST", "/echo?ms=50", data), result, send)
    connection.close()
