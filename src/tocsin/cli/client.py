"""A small HTTP client for the CLI: one request, one answer, problems as readable errors."""

import http.client
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from tocsin.cli.short_ids import whole

KEY_FILE: Final = "admin-key"
"""As in `domain.keys`, which takes longer to load than a whole call."""
_TIMEOUT: Final = 30
_BATCH_TIMEOUT: Final = 300
_URL: Final = re.compile(r"https?://[^\s/?#]*[^\s/?#:](:\d{1,5})?(/[^\s?#]*)?")
_NOWHERE: Final = (
    "nothing answers at {url}: {reason}\nHint: is `tocsin serve` running? Point --url or TOCSIN_URL at it."
)


class ApiError(click.ClickException):
    """What the API refused, with its status; `status` is None when nothing answered."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def undecided(self) -> bool:
        """Whether the request may have been carried out all the same."""
        return self.status is None or self.status >= 500


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Client:
    """Talks to one API with one key; an operator's may act for a tenant."""

    def __init__(self, url: str, key: str, tenant: str | None = None, key_from: str = "") -> None:
        self.url = url.rstrip("/")
        self._key_from = key_from
        self.headers = {"authorization": f"Bearer {key}"}
        """What every request carries."""
        if tenant is not None:
            self.headers["tocsin-tenant"] = tenant
        # No proxy from the environment and no redirects: the key must go where the user said.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)

    def get(self, *path: str, **query: Any) -> Any:
        """Read something. The parts of a path are a user's words: each stays one part, whatever is in it."""
        return self._ask("GET", address(*map(whole, path), **query))

    def post(self, *path: str, body: Any = None) -> Any:
        """Do something."""
        return self._ask("POST", address(*map(whole, path)), body)

    def put(self, *path: str, body: Any) -> Any:
        """Make something what the body says."""
        return self._ask("PUT", address(*map(whole, path)), body)

    def patch(self, *path: str, body: Any, version: int | None = None) -> Any:
        """Change something, if it is still at this version."""
        return self._ask(
            "PATCH", address(*map(whole, path)), body, {} if version is None else {"if-match": f'"{version}"'}
        )

    def delete(self, *path: str, **query: Any) -> Any:
        """Remove something."""
        return self._ask("DELETE", address(*map(whole, path), **query))

    def declare(self, owner: str, body: Any) -> Any:
        """Say what all jobs of an owner are."""
        headers = {"content-type": "application/json"}
        return self._send(
            "PUT", address("declarations", owner), json.dumps(body).encode(), headers, _BATCH_TIMEOUT
        )

    def batch(self, lines: Iterable[bytes], *, atomic: bool) -> Any:
        """Create a job per line. The answer lists the fate of each, also when an atomic batch was refused."""
        path = address("jobs:batch", atomic="true" if atomic else "false")
        headers = {"content-type": "application/x-ndjson"}
        return self._send("POST", path, b"\n".join(lines), headers, _BATCH_TIMEOUT)

    def _ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return self._send(
            method, path, data, {"content-type": "application/json", **(headers or {})}, _TIMEOUT
        )

    def _send(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str], timeout: int
    ) -> Any:
        authorized = {**self.headers, **headers}
        request = urllib.request.Request(self.url + path, data, authorized, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                raw = answer.read()
        except urllib.error.HTTPError as error:
            # A refused batch is an answer like any other; problems come as problem documents.
            if error.code != 422 or error.headers.get_content_type() != "application/json":
                words = words_of_problem(error.code, error.reason, _read(error))
                if error.code == 401 and self._key_from:
                    words += f"\nHint: the key came from {self._key_from}"
                raise ApiError(words, error.code) from None
            raw = error.read()
        except (OSError, http.client.HTTPException) as error:
            raise nobody_there(self.url, getattr(error, "reason", None) or error) from None
        return read_document(self.url, raw)


def connect(url: str | None, key: str | None, tenant: str | None = None) -> Client:
    """A client from flags, else the environment, else the data directory of a local `serve`."""
    found, key_from = _find_key(key)
    if not found:
        raise click.ClickException(
            "no API key: give --key or TOCSIN_API_KEY, or run in the directory where `tocsin serve` was started"
        )
    where = url or os.environ.get("TOCSIN_URL") or "http://127.0.0.1:8420"
    if not _URL.fullmatch(where):
        raise click.UsageError(f"{where!r} is not a URL such as http://127.0.0.1:8420")
    if not (found.isascii() and found.isprintable()):
        raise click.UsageError("an API key consists of printable ASCII characters")
    if tenant is not None and not (tenant.isascii() and tenant.isprintable()):
        raise click.UsageError("a tenant's name has a-z 0-9 . _ - in it")
    return Client(where, found, tenant, key_from)


def local_key() -> str | None:
    """The administrator's key: from the environment, else from the data directory of a local `serve`."""
    return _find_local_key()[0]


def _find_key(given: str | None) -> tuple[str | None, str]:
    """The key, and where it came from."""
    if given:
        return given, "--key"
    if named := os.environ.get("TOCSIN_API_KEY"):
        return named, "TOCSIN_API_KEY"
    return _find_local_key()


def _find_local_key() -> tuple[str | None, str]:
    if named := os.environ.get("TOCSIN_ADMIN_KEY"):
        return named, "TOCSIN_ADMIN_KEY"
    file = Path(os.environ.get("TOCSIN_DATA_DIR") or ".tocsin") / KEY_FILE
    try:
        return file.read_text().strip() or None, str(file)
    except OSError:
        return None, str(file)


def address(*path: str, **query: Any) -> str:
    """Where something is: the parts of a path, each quoted, and the parameters that are given."""
    parts = "/".join(urllib.parse.quote(part, safe="", errors="surrogateescape") for part in path)
    given = {name: value for name, value in query.items() if value is not None}
    text = urllib.parse.urlencode(given, errors="surrogateescape")
    return f"/v1/{parts}?{text}" if text else f"/v1/{parts}"


def nobody_there(url: str, reason: object) -> ApiError:
    """The error for a request that got no answer."""
    return ApiError(_NOWHERE.format(url=url, reason=reason))


def read_document(url: str, raw: bytes) -> Any:
    """The JSON object of an answer."""
    try:
        document = json.loads(raw)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise click.ClickException(
            f"what answers at {url} is not a Tocsin API\nHint: point --url or TOCSIN_URL at one"
        )
    return document


def words_of_problem(status: int, reason: str, raw: bytes) -> str:
    """A problem document as a person reads it; of any other answer its status."""
    try:
        document = json.loads(raw)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return f"{status} {reason}"
    field = f"{document['field']}: " if document.get("field") else ""
    hint = f"\nHint: {document['hint']}" if document.get("hint") else ""
    request = f", request {document['request_id']}" if document.get("request_id") else ""
    return f"{field}{document.get('detail', reason)} ({status}{request}){hint}"


def _read(error: urllib.error.HTTPError) -> bytes:
    """What there is of its body."""
    try:
        return error.read()
    except (OSError, http.client.HTTPException):
        return b""
