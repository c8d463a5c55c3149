"""A server that speaks as much S3 as the archive does: whole objects, put where nothing is, read, removed.

It can be told to lose an answer, to refuse, or to hold something else than what was put.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

BUCKET = "company"
_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>{}</Message></Error>'


class ObjectStore:
    """The objects of one bucket, by their keys."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts = 0
        self.signed = 0
        self.refusing = False
        self.losing_answers = 0
        self.endpoint = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: ObjectStore

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.store.puts += 1
        if self._refused():
            return
        if self.headers.get("if-none-match") == "*" and self._key in self.store.objects:
            self._answer(412, "PreconditionFailed")
            return
        self.store.objects[self._key] = body
        if self.store.losing_answers:
            self.store.losing_answers -= 1
            self._answer(500, "InternalError")
            return
        self._answer(200, etag=True)

    def do_GET(self) -> None:
        if self._refused():
            return
        body = self.store.objects.get(self._key)
        if body is None:
            self._answer(404, "NoSuchKey")
        else:
            self._answer(200, body=body, etag=True)

    def do_DELETE(self) -> None:
        if not self._refused():
            self.store.objects.pop(self._key, None)
            self._answer(204)

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")

    def _refused(self) -> bool:
        self.store.signed += "AWS4-HMAC-SHA256 Credential=key-of-tests/" in self.headers.get(
            "authorization", ""
        )
        if self.store.refusing:
            self._answer(403, "AccessDenied")
        return self.store.refusing

    def _answer(self, status: int, code: str = "", *, body: bytes | None = None, etag: bool = False) -> None:
        told = body if body is not None else _ERROR.format(code, code).encode() if code else b""
        self.send_response(status)
        if etag:
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Tue, 17 Nov 2026 00:00:00 GMT")
        if status != 204:
            self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A server on this machine."""
    store = ObjectStore()
    handler = type("Handler", (_Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
