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

from tocsin.supervisor import KEY_FILE

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

    def __init__(self, url: str, key: str, tenant: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._acting = {} if tenant is None else {"tocsin-tenant": tenant}
        # No proxy from the environment and no redirects: the key must go where the user said.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)

    def get(self, *path: str, **query: Any) -> Any:
        """Read something. The parts of a path are a user's words: each stays one part, whatever is in it."""
        given = {name: value for name, value in query.items() if value is not None}
        text = urllib.parse.urlencode(given, errors="surrogateescape")
        return self._ask("GET", f"{_path(path)}?{text}" if text else _path(path))

    def post(self, *path: str, body: Any = None) -> Any:
        """Do something."""
        return self._ask("POST", _path(path), body)

    def put(self, *path: str, body: Any) -> Any:
        """Make something what the body says."""
        return self._ask("PUT", _path(path), body)

    def patch(self, *path: str, body: Any, version: int | None = None) -> Any:
        """Change something, if it is still at this version."""
        return self._ask("PATCH", _path(path), body, {} if version is None else {"if-match": f'"{version}"'})

    def delete(self, *path: str) -> Any:
        """Remove something."""
        return self._ask("DELETE", _path(path))

    def batch(self, lines: Iterable[bytes], *, atomic: bool) -> Any:
        """Create a job per line. The answer lists the fate of each, also when an atomic batch was refused."""
        path = f"{_path(('jobs:batch',))}?atomic={'true' if atomic else 'false'}"
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
        authorized = {"authorization": f"Bearer {self._key}", **self._acting, **headers}
        request = urllib.request.Request(self._url + path, data, authorized, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                raw = answer.read()
        except urllib.error.HTTPError as error:
            # A refused batch is an answer like any other; problems come as problem documents.
            if error.code != 422 or error.headers.get_content_type() != "application/json":
                raise ApiError(_problem(error), error.code) from None
            raw = error.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ApiError(_NOWHERE.format(url=self._url, reason=reason)) from None
        try:
            return json.loads(raw)
        except ValueError:
            raise click.ClickException(f"what answers at {self._url} is not a Tocsin API") from None


def connect(url: str | None, key: str | None, tenant: str | None = None) -> Client:
    """A client from flags, else the environment, else the data directory of a local `serve`."""
    found = key or os.environ.get("TOCSIN_API_KEY") or os.environ.get("TOCSIN_ADMIN_KEY") or _local_key()
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
    return Client(where, found, tenant)


def _local_key() -> str | None:
    file = Path(os.environ.get("TOCSIN_DATA_DIR") or ".tocsin") / KEY_FILE
    try:
        return file.read_text().strip() or None
    except OSError:
        return None


def _path(parts: tuple[str, ...]) -> str:
    return "/v1/" + "/".join(urllib.parse.quote(part, safe="", errors="surrogateescape") for part in parts)


def _problem(error: urllib.error.HTTPError) -> str:
    try:
        document = json.load(error)
    except (OSError, ValueError):
        document = None
    if not isinstance(document, dict):
        return f"{error.code} {error.reason}"
    field = f"{document['field']}: " if document.get("field") else ""
    hint = f"\nHint: {document['hint']}" if document.get("hint") else ""
    request = f", request {document['request_id']}" if document.get("request_id") else ""
    return f"{field}{document.get('detail', error.reason)} ({error.code}{request}){hint}"
