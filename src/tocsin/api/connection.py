"""One client's connection: uvicorn's, with the limits that uvicorn leaves open.

A request must arrive: its head within a few seconds, a few KiB and a hundred fields, its body within half a
minute or at a decent pace. A client that drips bytes, never ends its headers, or goes on sending after it was
refused would otherwise hold memory and a connection for as long as it likes. How large a body may be is the
application's business; here only what comes after the answer is bounded. Whatever is not HTTP at all is
answered with a problem document too.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tocsin.api.problems import problem

_HEAD_TIMEOUT: Final = 10.0
_BODY_TIMEOUT: Final = 30.0
_SLOWEST_BODY: Final = 16 * 1024  # bytes per second that a longer body must make on average
_LARGEST_HEAD: Final = 64 * 1024
_MOST_FIELDS: Final = 100
# A client that only looks at the answer when all is sent still gets to see it, up to here.
_MOST_IGNORED: Final = 128 * 1024 * 1024


class Connection(HttpToolsProtocol):
    """Gives up on requests that do not arrive."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = 0
        self._head_fields = 0
        self._body_bytes = 0
        self._ignored = 0
        self._refusal: tuple[int, str] | None = None
        """What is said when the answers that are due have been given."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(_HEAD_TIMEOUT)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > _LARGEST_HEAD:
            self._refuse(431, f"the head of a request has at most {_LARGEST_HEAD // 1024} KiB")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._body_bytes, self._ignored = True, 0, 0, 0
        self._head_fields = 0
        self._wait(_HEAD_TIMEOUT)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_fields += 1
        if self._in_head and self._head_fields > _MOST_FIELDS:
            raise ValueError  # ends the parsing; uvicorn then calls send_400_response
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._wait(_BODY_TIMEOUT)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._body_bytes += len(body)
        if self.cycle.response_complete:
            self._ignored += len(body)
            if self._ignored > _MOST_IGNORED:
                self.transport.abort()

    def on_message_complete(self) -> None:
        self._wait(None)
        self._in_head, self._head_bytes = True, 0  # whatever comes now belongs to the next request
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refusal is not None and not self.pipeline:
            self._refuse(*self._refusal)

    def send_400_response(self, msg: str) -> None:
        """What uvicorn calls when the bytes are not HTTP, or not to be read on."""
        if self._in_head and self._head_fields > _MOST_FIELDS:
            self._refuse(431, f"a request has at most {_MOST_FIELDS} header fields")
        else:
            self._refuse(400, msg)

    def _wait(self, seconds: float | None) -> None:
        """Let the current deadline go, and set the next one."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self._body_bytes > _BODY_TIMEOUT * _SLOWEST_BODY:
            self._body_bytes = 0  # fast enough so far: another while for the next stretch
            self._wait(_BODY_TIMEOUT)
        else:
            self._refuse(408, "the request did not arrive in time")

    def _may_answer(self) -> bool:
        """Whether the wire is free: an answer that is due or under way must not be mixed with another."""
        if self.cycle is None:
            return True
        return self.cycle.response_complete if self._in_head else not self.cycle.response_started

    def _refuse(self, status: int, detail: str) -> None:
        """Answer without the application, if that is possible, and close."""
        if self._in_head and (self.pipeline or not self._may_answer()):
            self._refusal = (status, detail)  # requests before this one are answered first
            return
        if self.pipeline or not self._may_answer():
            self.transport.abort()
        if self.transport.is_closing():
            return
        answer = problem(status, detail, headers={"connection": "close"})
        head = b"".join(b"%b: %b\r\n" % field for field in answer.raw_headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(answer.body))
        self.transport.close()
