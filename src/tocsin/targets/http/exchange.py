"""One HTTP exchange as values: the request going out, the answer coming back, or the reason there is none.

`encode_request` is the only way a request becomes bytes. A header that could end its line early, or that
names something the client itself must decide (framing, host, connection), is refused there, so no caller can
smuggle a second request or a second Host through it.
"""

import functools
import re
import ssl
from enum import StrEnum
from typing import Final

import msgspec

from tocsin.domain.addresses import TargetUrl
from tocsin.domain.errors import TocsinError

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSAFE_IN_VALUE: Final = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_OURS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds that hold whatever the other side does. Bytes, seconds, counts."""

    connections: int = 1024
    """Requests in flight, over all origins."""
    connections_per_origin: int = 64
    """Requests in flight to one scheme, host and port; more wait in line."""
    idle_connections: int = 256
    """Connections kept open for the next request, over all origins."""
    idle_seconds: float = 4.0
    """Shorter than the 5 s after which common servers close, so that we close first and no request is
    lost."""
    connection_seconds: float = 300.0
    """Age at which even a busy connection is given up, so that a target that moves is followed to its new
    address."""
    head_bytes: int = 32 * 1024
    """Status line and headers of an answer, informational answers included."""
    read_bytes: int = 1024 * 1024
    """Body that is read before the connection is dropped."""
    kept_bytes: int = 64 * 1024
    """Body that is kept."""


class OutgoingRequest(msgspec.Struct, frozen=True, gc=False):
    """A request to send. Timeouts are seconds; the total covers everything from waiting in line to the last
    byte."""

    method: str
    url: TargetUrl
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    connect_timeout: float = 5.0
    total_timeout: float = 30.0
    tenant_id: int = 0
    """Whose request it is: tenants take turns where connections are short."""
    name_patience: float | None = None
    """Seconds to wait for name servers; after that `StillResolving` is raised. None: as long as a lookup
    takes."""
    tls: ssl.SSLContext | None = None
    """What to connect with instead of the client's own; only requests with the same one share connections."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What the target said. Header names are lower-case; the body is as sent, never decompressed."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    """The first bytes of the body, up to the limit."""
    body_bytes_read: int
    truncated: bool
    """Whether the target sent more body than is kept here."""

    def header(self, name: str) -> str | None:
        """The first value under a lower-case name."""
        return next((value for known, value in self.headers if known == name), None)


class FailureKind(StrEnum):
    """Why there is no answer."""

    INVALID_REQUEST = "invalid_request"
    REFUSED_ADDRESS = "refused_address"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    CLOSED = "closed"
    TOO_LARGE = "too_large"

    @property
    def retryable(self) -> bool:
        """Whether the same request may fare better later. A certificate or a garbled answer gets mended; a
        malformed request, a forbidden address or an oversized head does not mend itself."""
        return self not in _FINAL_KINDS


_FINAL_KINDS: Final = frozenset(
    {FailureKind.INVALID_REQUEST, FailureKind.REFUSED_ADDRESS, FailureKind.TOO_LARGE}
)


class DeliveryFailed(TocsinError):
    """The request has no answer. Whether the target acted on it is unknown unless the kind says it never
    left."""

    def __init__(self, kind: FailureKind, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class RequestUnseen(DeliveryFailed):
    """The peer had already finished with the connection when the request set out, and acted on none of it."""

    def __init__(self) -> None:
        super().__init__(FailureKind.CLOSED, "the target closed the connection before the request reached it")


def encode_request(request: OutgoingRequest) -> bytes:
    """The request as it goes on the wire."""
    if request.method not in _METHODS:
        raise DeliveryFailed(
            FailureKind.INVALID_REQUEST, f"{request.method[:20]!r} is not a method that is sent"
        )
    lines = [f"{request.method} {request.url.path} HTTP/1.1\r\nHost: {request.url.authority}\r\n"]
    for name, value in request.headers:
        if not _may_send(name):
            raise DeliveryFailed(FailureKind.INVALID_REQUEST, f"the header {name[:64]!r} cannot be set")
        lines.append(f"{name}: {value}\r\n")
    values = "".join([value for _, value in request.headers])
    # The first test is cheap and settles nearly every request; the second also allows tabs and ISO 8859-1.
    if not (values.isascii() and values.isprintable()) and _UNSAFE_IN_VALUE.search(values):
        raise DeliveryFailed(FailureKind.INVALID_REQUEST, "a header value has characters that cannot be sent")
    if request.body or request.method in _METHODS_WITH_BODY:
        lines.append(f"Content-Length: {len(request.body)}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode("latin-1") + request.body


@functools.lru_cache(maxsize=1024)
def _may_send(name: str) -> bool:
    """Cached because the same few names come with every request."""
    return _HEADER_NAME.fullmatch(name) is not None and name.lower() not in _OURS
