"""A Redis that answers as a test wants: for what a real one answers rarely."""

import asyncio
from collections.abc import Sequence
from typing import Self

_GREETING = b"*6\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"


class FakeRedis:
    """Gives each message the next of `answers`, and the last one to all that follow."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.heard: list[str] = []
        """The commands that came, by their names."""
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            words = [await _word(reader) for _ in range(int(line[1:]))]
            self.heard.append(words[0].decode())
            if words[0] == b"ASKING":
                writer.write(b"+OK\r\n")
            elif words[0] == b"XADD":
                writer.write(f"{self._answers[0]}\r\n".encode())
                self._answers = self._answers[1:] or self._answers
            else:
                writer.write(_GREETING)
        writer.close()


async def _word(reader: asyncio.StreamReader) -> bytes:
    size = int((await reader.readline())[1:])
    return (await reader.readexactly(size + 2))[:-2]
