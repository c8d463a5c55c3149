"""One connection to a target, carrying one exchange at a time.

A protocol on the bare transport: bytes out in one write, bytes in to a `ResponseReader`, one future in
between. There is no buffer, no stream and no task per connection; that is what makes it fast.

A kept connection can be closed by the peer at the very moment it is used again. Whether the request may then
be sent anew is decided here, strictly, because a target must not be called twice for one attempt:

* `is_quiet` asks the kernel just before reuse. A connection with anything to read (the end of the stream, a
  reset, bytes that were not asked for) is dropped with nothing sent on it.
* `RequestUnseen` is raised when the stream ends before any byte of an answer, and the kernel says that no
  byte of the request was acknowledged. The segment that carries the end of the stream also acknowledges all
  that its sender had received by then; so the peer had closed its side before the request came. It can no
  longer answer, and reads what still comes only to throw it away (RFC 9112, 9.6).
* Anything else, a reset above all, proves nothing: a reset does not say how much was read. It is `closed`,
  and whether to try again belongs to the job's retry policy, where it is recorded.
"""

import asyncio
import fcntl
import select
import struct
import sys
import termios
from typing import Final, cast

from tocsin.targets.http.exchange import Answer, DeliveryFailed, FailureKind, HttpLimits, RequestUnseen
from tocsin.targets.http.response import ResponseReader

_INT: Final = struct.Struct("i")


class HttpConnection(asyncio.Protocol):
    """Open from `connection_made` until `lost` is done. The sender must close or abort it when an exchange
    fails."""

    def __init__(self, descriptor: int, limits: HttpLimits) -> None:
        self.reusable = True
        """Whether, with no exchange under way, another one may follow."""
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._descriptor = descriptor
        self._limits = limits
        self._readable = select.poll()
        self._readable.register(descriptor, select.POLLIN)
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[Answer] | None = None
        self._reader: ResponseReader
        self._sent = 0
        self._deadline = 0.0

    def exchange(self, request: bytes, *, bodiless: bool, deadline: float) -> asyncio.Future[Answer]:
        """Send a request; the future holds its answer, or raises DeliveryFailed, or TimeoutError after
        `deadline`."""
        if self._transport.is_closing():
            raise DeliveryFailed(FailureKind.CLOSED, "the target closed the connection at once")
        self._reader = ResponseReader(self._limits, bodiless=bodiless)
        self._waiter = waiter = self._loop.create_future()
        self._sent = len(request)
        self._deadline = deadline
        self._transport.write(request)
        return waiter

    def expire(self, now: float) -> None:
        """Give up an exchange whose time is over."""
        if self._waiter is not None and now >= self._deadline:
            self._fail(TimeoutError())

    def is_quiet(self) -> bool:
        """Whether the peer has neither spoken nor closed since the last answer, as the kernel knows it
        now."""
        return not self._transport.is_closing() and not self._readable.poll(0)

    def close(self) -> None:
        """End an idle connection politely."""
        self._transport.close()

    def abort(self) -> None:
        """End the connection at once, whatever is under way."""
        self._transport.abort()

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self._transport.abort()
            return
        try:
            if self._reader.feed(data):
                self._answer()
        except DeliveryFailed as failure:
            self._fail(failure)

    def eof_received(self) -> None:
        if self._waiter is None:
            self.reusable = False
            return
        if self._reader.feed_eof():
            self._answer()
        elif self._reader.received == 0 and self._unacknowledged() >= self._sent:
            self._fail(RequestUnseen())
        else:
            self._fail(
                DeliveryFailed(
                    FailureKind.CLOSED, "the target closed the connection before its answer was whole"
                )
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        if self._waiter is not None:
            reason = f": {exc.strerror}" if isinstance(exc, OSError) and exc.strerror else ""
            self._fail(
                DeliveryFailed(
                    FailureKind.CLOSED, f"the connection broke before the answer was whole{reason}"
                )
            )
        if not self.lost.done():
            self.lost.set_result(None)

    def _answer(self) -> None:
        waiter, self._waiter = self._waiter, None
        # A target may answer before it has read the whole request; the rest would precede the next one.
        self.reusable = self._reader.reusable and self._transport.get_write_buffer_size() == 0
        if waiter is not None and not waiter.done():
            waiter.set_result(self._reader.take_answer())

    def _fail(self, failure: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        self.reusable = False
        if waiter is not None and not waiter.done():
            waiter.set_exception(failure)

    def _unacknowledged(self) -> int:
        """Bytes written that the peer's kernel has not acknowledged. Only Linux tells; elsewhere nothing is
        proven."""
        if sys.platform != "linux":
            return -1
        queued: int = _INT.unpack(fcntl.ioctl(self._descriptor, termios.TIOCOUTQ, bytes(_INT.size)))[0]
        return queued + self._transport.get_write_buffer_size()
