"""A small HTTP/1.1 client for measuring: one connection, one request at a time, nothing retried.

It trusts the peer's syntax, not its honesty: what does not arrive whole is a failure with a name.
"""
import asyncio

TIME_MAX = 90  # seconds for one exchange; longer than any limit of the peers

# What a failed request is called in the results; answers below 200 and from 400 count by status.
CONNECT, RESET, TRUNCATED, HASH, TIMEOUT = "connect", "reset", "truncated", "hash", "timeout"


class Failed(Exception):
    """A request without a whole, right answer; its text is the reason."""


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


class Client:
    """Keeps its connection while both sides allow it."""

    def __init__(self, port):
        self.port = port
        self.reader = self.writer = None

    async def ask(self, method, path, body=b"", send=None):
        """The answer to one request, or `Failed`. `send(writer, body)` may send the body slowly."""
        try:
            return await asyncio.wait_for(self._ask(method, path, body, send), TIME_MAX)
        except asyncio.TimeoutError:
            self.close()
            raise Failed(TIMEOUT) from None
        except Failed:
            self.close()
            raise

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None

    async def _ask(self, method, path, body, send):
        if self.writer is None:
            await self._connect()
        head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            self.writer.write(head.encode())
            await (send or write_whole)(self.writer, body)
        except OSError:
            pass  # it may have answered early; the answer decides
        status, headers = await self._read_head()
        body = await self._read_body(headers)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, headers, body)

    async def _connect(self):
        try:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 21)
        except OSError:
            raise Failed(CONNECT) from None

    async def _read_head(self):
        try:
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except (OSError, EOFError):
            raise Failed(RESET) from None
        pairs = (line.split(":", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value.strip() for name, value in pairs}

    async def _read_body(self, headers):
        try:
            if headers.get("transfer-encoding", "").lower() == "chunked":
                return await self._read_chunks()
            if "content-length" in headers:
                return await self.reader.readexactly(int(headers["content-length"]))
            return await self.reader.read(-1)
        except (OSError, EOFError):
            raise Failed(TRUNCATED) from None

    async def _read_chunks(self):
        parts = []
        while True:
            size = int((await self.reader.readline()).split(b";")[0] or b"x", 16)
            part = await self.reader.readexactly(size + 2)
            if size == 0:
                return b"".join(parts)
            parts.append(part[:-2])


async def write_whole(writer, body):
    writer.write(body)
    await writer.drain()
