"""Reading one answer from bytes, within bounds, without any I/O.

A `ResponseReader` reads exactly one answer and is then thrown away, parser and all: nothing that a server
sends around one answer can colour the next. It is fed what arrives, in any pieces, and says when the answer
is there.

Invariants:

* No answer is reported complete before its framing says so: length reached, last chunk seen, or, for an
  answer without framing, the end of the stream.
* The head (informational answers included) and the whole of what is read are bounded. A head past its bound
  fails the exchange; a body past its bound ends it early with `truncated`, because the status already says
  what matters.
* Bytes beyond the end of the answer make the connection unfit for another one.
"""

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from tocsin.targets.http.exchange import Answer, DeliveryFailed, FailureKind, HttpLimits

_SWITCHING_PROTOCOLS: Final = 101


class ResponseReader:
    """Reads the answer to one request. `bodiless` is for HEAD, whose answer describes a body that never
    comes."""

    received = 0
    """Bytes taken from the wire so far, framing included."""
    reusable = False
    """Whether the connection may carry another request after this answer."""
    _status = 0
    _headers: tuple[tuple[str, str], ...] | None = None
    _body_bytes = 0
    _interim = False
    _complete = False
    _failure: DeliveryFailed | None = None

    def __init__(self, limits: HttpLimits, *, bodiless: bool) -> None:
        self._limits = limits
        self._bodiless = bodiless
        self._fields: list[tuple[str, str]] = []
        self._body = bytearray()
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> bool:
        """Take what arrived; true once the answer is there. Raises DeliveryFailed when there will be none."""
        self.received += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._failure = self._failure or _garbled(str(error))
        if self._complete:
            # The parser reads on past the end; what it stumbles over there is no part of this answer.
            self.reusable = self.reusable and self._failure is None
            return True
        if self._failure is not None:
            raise self._failure
        if self._is_over_bounds():
            self.reusable = False
            return True
        return False

    def feed_eof(self) -> bool:
        """The peer will send no more; true if that is how this answer ends."""
        self._complete = self._headers is not None and _runs_to_eof(self._headers)
        return self._complete

    def take_answer(self) -> Answer:
        """The answer read so far. Ends the reader: it lets go of the parser, which points back at it."""
        del self._parser
        return Answer(
            status=self._status,
            headers=self._headers or (),
            body=bytes(self._body),
            body_bytes_read=self._body_bytes,
            truncated=not self._complete or self._body_bytes > len(self._body),
        )

    def _is_over_bounds(self) -> bool:
        if self._headers is None:
            if self.received > self._limits.head_bytes:
                raise _head_too_large()
            return False
        # The second bound is for what is not body: endless chunk extensions, trailers, chunks of one byte.
        return (
            self._body_bytes > self._limits.read_bytes
            or self.received > self._limits.head_bytes + self._limits.read_bytes
        )

    # What follows is called by the parser, in the middle of `feed`.

    def on_message_begin(self) -> None:
        if self._complete:
            self._failure = _garbled("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != _SWITCHING_PROTOCOLS:
            self._interim = True
            self._fields.clear()
        elif not 200 <= status < 600:
            self._failure = _garbled(f"unexpected status {status}")
        elif self.received > self._limits.head_bytes and _size(self._fields) > self._limits.head_bytes:
            self._failure = _head_too_large()
        else:
            self._status = status
            self._headers = tuple(self._fields)
            self.reusable = self._parser.should_keep_alive()
            self._complete = self._bodiless

    def on_body(self, data: bytes) -> None:
        if self._complete:
            self._failure = _garbled("a body where none belongs")
        elif not self._interim:
            self._body_bytes += len(data)
            if (room := self._limits.kept_bytes - len(self._body)) > 0:
                self._body += data[:room]

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
        elif self._failure is None:
            self._complete = True


def _runs_to_eof(headers: tuple[tuple[str, str], ...]) -> bool:
    codings = [value for name, value in headers if name == "transfer-encoding"]
    if codings:
        return codings[-1].split(",")[-1].strip().lower() != "chunked"
    return all(name != "content-length" for name, _ in headers)


def _size(fields: list[tuple[str, str]]) -> int:
    return sum(len(name) + len(value) for name, value in fields)


def _garbled(reason: str) -> DeliveryFailed:
    return DeliveryFailed(FailureKind.PROTOCOL, f"the target does not answer in HTTP/1.1: {reason}")


def _head_too_large() -> DeliveryFailed:
    return DeliveryFailed(FailureKind.TOO_LARGE, "the headers of the answer are too large")
