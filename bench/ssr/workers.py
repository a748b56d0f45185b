"""Worker processes for peers that do not supervise any: starts, watches, replaces, restarts.

It does what pool-hall does for them (same port for the same id, a replacement at once), and kills
a worker whose heartbeat stops, so that no peer loses for want of a supervisor.
"""
import asyncio
import os
import signal
import socket
import time

STALL_TIME = 5.0  # seconds without a heartbeat before SIGKILL
STOP_TIME = 5.0   # seconds from SIGTERM to SIGKILL
START_TIME = 30.0


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


async def until_listening(port, seconds=START_TIME):
    """Returns when a connect to `port` is accepted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.02)
    raise RuntimeError(f"nobody listens on port {port} after {seconds} s")


class Workers:
    def __init__(self, count, folder, environment):
        self.ports = free_ports(count)
        self.folder = folder
        self.environment = environment
        self.processes = {}
        self.keepers = []
        self.stopping = False

    async def start(self):
        self.keepers = [asyncio.create_task(self._keep(index)) for index in range(len(self.ports))]
        await asyncio.gather(*(until_listening(port) for port in self.ports))

    async def stop(self):
        self.stopping = True
        for process in list(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        done, late = await asyncio.wait(self.keepers, timeout=STOP_TIME)
        if late:
            for process in list(self.processes.values()):
                process.kill()
            await asyncio.wait(late)

    def pids(self):
        return [process.pid for process in self.processes.values()]

    async def restart_rolling(self):
        """Each in turn: SIGTERM, wait for its end, wait until its replacement listens."""
        for index, port in enumerate(self.ports):
            old = self.processes[index]
            old.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(old.wait(), STOP_TIME)
            except asyncio.TimeoutError:
                old.kill()
                await old.wait()
            while self.processes.get(index) in (None, old):
                await asyncio.sleep(0.005)
            await until_listening(port)

    async def _keep(self, index):
        """Runs one worker, again and again."""
        while not self.stopping:
            beat_read, beat_write = os.pipe()
            environment = {**os.environ, **self.environment, "PORT": str(self.ports[index]),
                           "SPILLGATE_WORKER_ID": str(index), "HEARTBEAT_FD": str(beat_write)}
            process = await asyncio.create_subprocess_exec(
                "node", "server.js", cwd=self.folder, env=environment, pass_fds=[beat_write])
            os.close(beat_write)
            self.processes[index] = process
            watcher = asyncio.create_task(self._watch(process, beat_read))
            await process.wait()
            watcher.cancel()
            os.close(beat_read)
            self.processes.pop(index, None)

    async def _watch(self, process, beat_read):
        """Kills the worker when it has beaten once and then stops."""
        os.set_blocking(beat_read, False)
        last = None
        while True:
            try:
                if os.read(beat_read, 4096):
                    last = time.monotonic()
            except BlockingIOError:
                pass
            if last and time.monotonic() - last > STALL_TIME:
                process.kill()
                return
            await asyncio.sleep(0.5)
