"""The gateway of a conformance run: the calls of the protocol over HTTP, and the faults that a scenario asks
for.

Built on the standard library's server, a thread per connection: it serves one worker for a few seconds, and
may close a connection in the middle of anything.
"""

import re
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any, Final

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.protocol import (
    MAX_BODY,
    Ask,
    Heartbeat,
    NewWorker,
    Release,
    Released,
    SettledAll,
    Settlements,
    TaskSettlement,
    check_ask,
    check_heartbeat,
    check_settlements,
    check_worker,
)
from tocsin.sdk.conformance.book import Book

KEY: Final = "tsk_conformance"
_CALL: Final = re.compile(r"/v1/workers/(wrk_[0-9a-z]+)(?:/(claim|settle|heartbeat|release))?")
_BODIES: Final[dict[str, Any]] = {
    "register": NewWorker, "claim": Ask, "settle": Settlements, "heartbeat": Heartbeat, "release": Release,
}  # fmt: skip


@dataclass
class ApiCall:
    """What the worker said."""

    verb: str
    worker: str
    body: Any
    at: float = field(default_factory=monotonic)

    @property
    def settlements(self) -> list[TaskSettlement]:
        return self.body.settle if self.verb in ("claim", "settle") else []


@dataclass
class Fault:
    """Something that goes wrong with calls: the next `times` of those verbs that `when` picks."""

    verbs: tuple[str, ...]
    status: int = 0
    """What is answered instead; 0: nothing, the connection ends."""
    acts: bool = False
    """Whether the call has its effect, and only its answer is lost."""
    retry_after: int | None = None
    times: int = 1
    when: Callable[[ApiCall], bool] = lambda _: True
    met: list[float] = field(default_factory=list)
    """When it happened."""


class Gateway:
    """A server on a port of its own."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.calls: list[ApiCall] = []
        self.faults: list[Fault] = []
        self.silent = False
        """Whether calls wait without an answer."""
        self.extra: dict[str, Any] = {}
        """Fields that every answer has besides its own."""
        self.unknown: set[str] = set()
        """Workers that are not known any more."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.gateway = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server; workers that wait for an answer get none."""
        with self.book.changed:
            self.silent, self.book.draining = False, True
            self.book.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def fault_of(self, call: ApiCall) -> Fault | None:
        """What goes wrong with a call; it is noted either way."""
        with self.book.changed:
            self.calls.append(call)
            self.book.changed.notify_all()
            while self.silent:
                self.book.changed.wait(0.1)
                if not self.silent:
                    return Fault((call.verb,))
            for fault in self.faults:
                if call.verb in fault.verbs and len(fault.met) < fault.times and fault.when(call):
                    fault.met.append(monotonic())
                    return fault
        return None

    def answer(self, call: ApiCall, gone: Callable[[], bool], *, waits: bool) -> Any:
        """What a call is answered, if the answer arrives; one that will not does not wait for work."""
        match call.verb:
            case "register":
                return self.book.register(call.body)
            case "claim":
                return self.book.claim(call.worker, call.body, gone, waits=waits)
            case "settle":
                return SettledAll(self.book.settle(call.body.settle))
            case "heartbeat":
                return self.book.heartbeat(call.worker, call.body)
            case "release":
                return Released(self.book.release(call.body.claims))
        self.book.leave(call.worker)
        return {"worker": call.worker}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    gateway: Gateway

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is the worker's affair."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Scenarios tell what happened."""

    def _serve(self) -> None:
        gateway = self.server.gateway
        raw = self._body()
        if raw is None:
            self.close_connection = True
            return None
        if self.headers.get("authorization") != f"Bearer {KEY}":
            return self._problem(401, "the key is not known")
        try:
            call = self._call(raw)
        except (Refused, msgspec.MsgspecError) as error:
            gateway.book.violate(f"{self.command} {self.path} was refused: {error}")
            return self._problem(422, str(error))
        if call is None:
            return self._problem(404, "there is nothing here")
        fault = gateway.fault_of(call)
        if fault is not None and not fault.acts:
            return self._problem(fault.status, "asked for by the scenario", fault.retry_after)
        if call.verb != "register" and (
            call.worker in gateway.unknown or call.worker not in gateway.book.workers
        ):
            return self._problem(404, f"worker {call.worker} is not known; register again")
        answer = msgspec.to_builtins(gateway.answer(call, self._gone, waits=fault is None))
        if fault is not None:
            return self._problem(fault.status, "asked for by the scenario", fault.retry_after)
        self._send(201 if call.verb == "register" else 200, {**answer, **gateway.extra})
        return None

    def _call(self, raw: bytes) -> ApiCall | None:
        if (self.command, self.path) == ("POST", "/v1/workers"):
            verb, worker = "register", ""
        elif (match := _CALL.fullmatch(self.path)) is None:
            return None
        else:
            worker, verb = match[1], match[2] or "leave"
        if (verb == "leave") != (self.command == "DELETE"):
            return None
        body = msgspec.json.decode(raw, type=_BODIES[verb]) if verb in _BODIES else None
        _check(verb, body)
        return ApiCall(verb, worker, body)

    def _body(self) -> bytes | None:
        """What was sent. None: less than was announced, for the worker died meanwhile."""
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            size = min(int(self.headers.get("content-length") or 0), MAX_BODY)
            raw = self.rfile.read(size)
            return raw if len(raw) == size else None
        parts: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _gone(self) -> bool:
        """Whether the worker has closed the connection on which it waits."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def _problem(self, status: int, detail: str, retry_after: int | None = None) -> None:
        if status == 0:
            self.close_connection = True
            return
        self._send(status, {"title": "refused", "status": status, "detail": detail}, retry_after)

    def _send(self, status: int, body: Any, retry_after: int | None = None) -> None:
        raw = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("content-type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("content-length", str(len(raw)))
        if retry_after is not None:
            self.send_header("retry-after", str(retry_after))
        self.end_headers()
        self.wfile.write(raw)


def _check(verb: str, body: Any) -> None:
    match verb:
        case "register":
            check_worker(body)
        case "claim":
            check_ask(body)
        case "settle":
            check_settlements(body.settle)
        case "heartbeat":
            check_heartbeat(body)
