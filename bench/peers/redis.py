"""A peer whose jobs live in Redis: a server of its own for each measurement, reached over a Unix socket."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from bench.peers.driven import DrivenPeer
from bench.peers.environment import NotInstalled, redis_server

REDIS = "Redis with appendonly yes and appendfsync everysec, Unix socket"
OPTIONS = (
    "--port",
    "0",
    "--unixsocket",
    "redis.sock",
    "--appendonly",
    "yes",
    "--appendfsync",
    "everysec",
    "--save",
    "",
)


class RedisPeer(DrivenPeer):
    """The commands say how many jobs are not done: the sum of their answers."""

    pending_commands: ClassVar[tuple[tuple[str, ...], ...]]

    def __init__(self, server_url: str) -> None:
        super().__init__(server_url)
        self._server: list[str] = []
        self._environment: Mapping[str, str] = {}

    async def install(self) -> None:
        self._server, self._environment = await redis_server()

    @asynccontextmanager
    async def store(self) -> AsyncIterator[str]:
        with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as directory:
            process = await asyncio.create_subprocess_exec(
                *self._server,
                *OPTIONS,
                cwd=directory,
                env=dict(self._environment) or None,
                stdout=asyncio.subprocess.DEVNULL,
            )
            socket = f"{directory}/redis.sock"
            try:
                await _until_there(Path(socket))
                yield socket
            finally:
                process.kill()
                await process.wait()

    async def pending(self, store: str) -> int:
        return sum(await answers(store, self.pending_commands))


async def answers(socket: str, commands: tuple[tuple[str, ...], ...]) -> list[int]:
    """Integer answers of Redis to some commands."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.write("".join(f"{' '.join(command)}\r\n" for command in commands).encode())
        return [int((await reader.readline()).removeprefix(b":")) for _ in commands]
    finally:
        writer.close()


async def _until_there(socket: Path) -> None:
    deadline = time.monotonic() + 10
    while not socket.exists():
        if time.monotonic() > deadline:
            raise NotInstalled("the Redis server did not start")
        await asyncio.sleep(0.02)
