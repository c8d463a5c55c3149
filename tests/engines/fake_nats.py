"""A NATS server that acknowledges as a test wants: for what a real one answers rarely."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Self

_INFO = {"server_id": "x", "version": "2.15.0", "max_payload": 1048576, "headers": True, "proto": 1}


class FakeNats:
    """Gives each message the next of `answers`, and the last one to all that follow."""

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = list(answers)
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"INFO {json.dumps(_INFO)}\r\n".encode())
        subscription = "1"
        while line := await reader.readline():
            match line.decode().split():
                case ["PING"]:
                    writer.write(b"PONG\r\n")
                case ["SUB", _, subscription]:
                    pass
                case ["HPUB", _, inbox, _, size]:
                    await reader.readexactly(int(size) + 2)
                    answer = json.dumps(self._answers[0]).encode()
                    self._answers = self._answers[1:] or self._answers
                    writer.write(f"MSG {inbox} {subscription} {len(answer)}\r\n".encode() + answer + b"\r\n")
        writer.close()
