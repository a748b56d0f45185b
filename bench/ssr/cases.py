"""The cases: a crowd, and what befalls the workers meanwhile."""
import asyncio
import json
import os
import random
import signal
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Callable

import load
from crowd import COUNT
from http1 import TRUNCATED, Client, Failed

SEED = 1
WAIT = {"RENDER_MODE": "wait", "RENDER_MS": "200"}  # fifteen workers that spin need fifteen cores
HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Case:
    title: str
    run: Callable          # (peer, clients, requests) -> a row, without what all rows have
    app: str = "node-ops"
    workers: int = 15
    clients: tuple = (5, 13, 20)
    requests: int = 3000
    environment: tuple = tuple(WAIT.items())
    allows: str = "nothing"  # what may fail for Spillgate: nothing, or what a killed worker held


def row(result, **more):
    """What is reported of one run."""
    good = len(result.times)
    milliseconds = lambda share: result.times and round(1000 * result.quantile(share), 1)
    shares = [count for worker, count in result.workers.items() if worker != "?"]
    return {
        "good": good,
        "failed": sum(result.reasons.values()),
        "reasons": dict(sorted(result.reasons.items())),
        "p50_ms": milliseconds(0.50), "p99_ms": milliseconds(0.99), "max_ms": milliseconds(1),
        "rate": round(good / result.seconds, 1) if result.seconds else None,
        "inside_max": result.inside_max,
        "share_max": round(max(shares) / statistics.mean(shares), 2) if shares else None,
        **more,
    }


def under_fault(fault):
    """A closed loop with `fault(peer, count of faults)` running beside it after a fifth of it."""
    async def run(peer, clients, requests):
        begun = asyncio.Event()
        told = {}

        def marked():
            for number, request in enumerate(load.mixed(requests, SEED)):
                if number == requests // 5:
                    begun.set()
                yield request

        crowd = asyncio.create_task(load.closed_loop(peer.port, marked(), clients))
        misfortune = asyncio.create_task(fault(peer, begun, told))
        result = await crowd
        misfortune.cancel()
        await asyncio.gather(misfortune, return_exceptions=True)
        if not misfortune.cancelled() and misfortune.exception():
            raise misfortune.exception()
        return row(result, **told)

    return run


async def nothing(peer, begun, told):
    pass


async def rolling_restart(peer, begun, told):
    """One worker after the other, once."""
    await begun.wait()
    told["fault"] = "restart not finished"
    await peer.restart_rolling()
    told["fault"] = "all workers restarted"


async def random_kill(peer, begun, told, period=1.5):
    """SIGKILL to one worker every 1.5 s, busy or idle."""
    draw = random.Random(SEED)
    await begun.wait()
    count = 0
    while True:
        pids = peer.worker_pids()
        if pids:
            os.kill(draw.choice(sorted(pids)), signal.SIGKILL)
            count += 1
            told["fault"] = f"{count} kills"
        await asyncio.sleep(period)


async def hang(peer, begun, told):
    """One request that never ends; its own fate is told apart from the others'."""
    await begun.wait()
    told["fault"] = "hanging request unanswered"
    connection = Client(peer.port)
    try:
        answer = await connection.ask("GET", "/infinite")
        told["fault"] = f"hanging request: {answer.status}"
    except Failed as failure:
        told["fault"] = f"hanging request: {failure}"
    finally:
        connection.close()


async def react(peer, clients, requests):
    return row(await load.closed_loop(peer.port, load.react(requests, SEED), clients))


async def uploads(peer, clients, requests, rounds=5):
    """p99 of pages without and with 500 slow uploads beside them; the median round is told.

    The uploads run in a process of their own, so that their work does not delay the clock of the
    pages.
    """
    found, lost, good = [], Counter(), Counter()
    for number in range(rounds):
        calm = await load.closed_loop(peer.port, load.pages(requests // 6, SEED), clients)
        beside, crowd = await beside_crowd(peer, clients, number)
        for part in (calm.reasons, beside.reasons, crowd["reasons"]):
            lost.update(part)
        good.update(pages=len(calm.times) + len(beside.times), uploads=crowd["good"])
        found.append((beside.quantile(0.99) / calm.quantile(0.99), calm, beside))
    ratio, calm, beside = sorted(found, key=lambda one: one[0])[len(found) // 2]
    return {
        **row(beside), "failed": sum(lost.values()), "reasons": dict(lost),
        "p99_calm_ms": round(1000 * calm.quantile(0.99), 1), "p99_ratio": round(ratio, 3),
        "fault": f"{good['uploads']} of {rounds * COUNT} uploads good", "asked": sum(good.values()),
    }


async def beside_crowd(peer, clients, seed):
    """Pages for as long as the uploads of one round last; what became of both."""
    crowd = await asyncio.create_subprocess_exec(
        sys.executable, os.path.join(HERE, "crowd.py"), str(peer.port), str(seed),
        stdout=asyncio.subprocess.PIPE)
    ended = asyncio.Event()
    pages = asyncio.create_task(
        load.closed_loop(peer.port, load.pages(10 ** 9, SEED), clients, ended))
    out, _ = await crowd.communicate()
    ended.set()
    return await pages, json.loads(out)


CASES = {
    "normal": Case("Normal", under_fault(nothing)),
    "restart": Case("Rolling restart", under_fault(rolling_restart)),
    "kill": Case("Random kill", under_fault(random_kill), allows="killed"),
    "hang": Case("Hang", under_fault(hang)),
    "uploads": Case("500 slow uploads beside pages", uploads, clients=(5,)),
    "react": Case("React, as many workers as cores", react, app="react-ssr",
                  workers=len(os.sched_getaffinity(0)), clients=(2, 4, 8), requests=1000,
                  environment=()),
}


def broken(case, clients, found):
    """What must hold for Spillgate and does not; times are not judged."""
    if found["inside_max"] > 1:
        yield f"{found['inside_max']} requests inside a worker"
    if clients > case.workers and found["share_max"] > 1.3:
        yield f"a worker got {found['share_max']} times the mean"
    if case.allows == "nothing" and found["failed"]:
        yield f"failed: {found['reasons']}"
    if case.allows == "killed":
        kills = int(found.get("fault", "0").split()[0])
        # Safe methods are tried again, unless their answer had begun to go out.
        harmed = {reason: count for reason, count in found["reasons"].items()
                  if not reason.startswith("POST ") and not reason.endswith(TRUNCATED)}
        if harmed or found["failed"] > kills:
            yield f"{kills} kills, yet failed: {found['reasons']}"
