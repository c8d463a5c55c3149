"""A name server on loopback: names that begin with `good` have an address, those that begin with `slow` get
no answer, and any other does not exist."""

import socket
import struct
import threading
from types import TracebackType
from typing import Self

_HEADER = struct.Struct(">6H")
_A = 1


def answer_to(query: bytes, address: str) -> bytes | None:
    """What the server says to a question; None if it says nothing."""
    number, *_ = _HEADER.unpack_from(query)
    end = query.index(b"\0", _HEADER.size) + 5
    question = query[_HEADER.size : end]
    name = question[1 : 1 + question[0]]
    kind = struct.unpack(">H", question[-4:-2])[0]
    if name.startswith(b"slow"):
        return None
    if not name.startswith(b"good"):
        return _HEADER.pack(number, 0x8183, 1, 0, 0, 0) + question
    if kind != _A:
        return _HEADER.pack(number, 0x8180, 1, 0, 0, 0) + question
    record = b"\xc0\x0c" + struct.pack(">HHIH", _A, 1, 1, 4) + socket.inet_aton(address)
    return _HEADER.pack(number, 0x8180, 1, 1, 0, 0) + question + record


class NameServer:
    """Use as a context manager; `address` is where to ask."""

    def __init__(self, leads_to: str = "127.0.0.1") -> None:
        self.asked: list[bytes] = []
        self._leads_to = leads_to
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="name server")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as goodbye:
            goodbye.sendto(b"", self._socket.getsockname())
        self._thread.join(10)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(4096)
            if not query:
                return
            self.asked.append(query)
            if (answer := answer_to(query, self._leads_to)) is not None:
                self._socket.sendto(answer, sender)
