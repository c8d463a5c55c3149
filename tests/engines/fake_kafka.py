"""A Kafka of one node that answers as a test wants: for what a real one does rarely. It has every topic that
it is asked for, with one partition, but those whose names begin with `missing`."""

import asyncio
import contextlib
import struct
from types import TracebackType
from typing import Self

_VERSIONS = {0: (3, 7), 3: (1, 1), 18: (0, 0), 22: (0, 0)}
_NO_TOPIC = 3


class FakeKafka:
    """Names `leader` as each partition's leader, itself unless a test says otherwise. `codes` are what it
    says of batches, one after another; None hangs up instead, and after the last one all are taken."""

    def __init__(
        self, leader: tuple[str | None, int] | None = None, codes: list[int | None] | None = None
    ) -> None:
        self.leader = leader
        self._codes = codes or []
        self.batches: list[bytes] = []
        """Every batch that came, as it came."""
        self.producers = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, _, number = struct.unpack(">hhi", request[:8])
                answer = self._answer(key, request)
                if answer is None:
                    break
                writer.write(struct.pack(">ii", len(answer) + 4, number) + answer)
        writer.close()

    def _answer(self, key: int, request: bytes) -> bytes | None:
        match key:
            case 18:
                known = (struct.pack(">hhh", key, *of) for key, of in _VERSIONS.items())
                return struct.pack(">hi", 0, len(_VERSIONS)) + b"".join(known)
            case 22:
                self.producers += 1
                return struct.pack(">ihqh", 0, 0, 1000 + self.producers, 0)
            case 3:
                topic, _ = _read_text(request, _after_header(request) + 4)
                host, port = self.leader or ("127.0.0.1", self.port)
                node = struct.pack(">ii", 1, 7) + _text(host) + struct.pack(">i", port) + _text(None)
                code = _NO_TOPIC if topic.startswith("missing") else 0
                partition = struct.pack(">i", 0) if code else struct.pack(">ihiiii", 1, 0, 0, 7, 0, 0)
                return node + struct.pack(">iih", 7, 1, code) + _text(topic) + b"\0" + partition
            case 0:
                topic, end = _read_text(request, _after_header(request) + 12)
                self.batches.append(request[end + 12 :])
                code = self._codes.pop(0) if self._codes else 0
                if code is None:
                    return None
                told = struct.pack(">iihqqq", 1, 0, code, 5, -1, 0)
                return struct.pack(">i", 1) + _text(topic) + told + struct.pack(">i", 0)
        raise AssertionError(f"a request of the kind {key}")


def _text(of: str | None) -> bytes:
    return struct.pack(">h", -1) if of is None else struct.pack(">h", len(of)) + of.encode()


def _after_header(request: bytes) -> int:
    return _read_text(request, 8)[1]


def _read_text(request: bytes, at: int) -> tuple[str, int]:
    """A text and where it ends."""
    end = at + 2 + max(0, struct.unpack_from(">h", request, at)[0])
    return request[at + 2 : end].decode(), end
