"""A small HTTP client for the CLI: one request, one answer, problems as readable errors."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

import click

from tocsin.supervisor import KEY_FILE

_TIMEOUT: Final = 30
_NOWHERE: Final = (
    "nothing answers at {url}: {reason}\nHint: is `tocsin serve` running? Point --url or TOCSIN_URL at it."
)


class Client:
    """Talks to one API with one key."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._key = key
        # No proxy from the environment: the key must go where the user said.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str, **query: Any) -> Any:
        """Read something."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", path + ("?" + urllib.parse.urlencode(given) if given else ""))

    def post(self, path: str, body: Any = None) -> Any:
        """Do something."""
        return self._ask("POST", path, body)

    def delete(self, path: str) -> Any:
        """Remove something."""
        return self._ask("DELETE", path)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise click.ClickException(_problem(error)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise click.ClickException(_NOWHERE.format(url=self._url, reason=reason)) from None


def connect(url: str | None, key: str | None) -> Client:
    """A client from flags, else the environment, else the data directory of a local `serve`."""
    found = key or os.environ.get("TOCSIN_API_KEY") or os.environ.get("TOCSIN_ADMIN_KEY") or _local_key()
    if not found:
        raise click.ClickException(
            "no API key: give --key or TOCSIN_API_KEY, or run in the directory where `tocsin serve` was started"
        )
    return Client(url or os.environ.get("TOCSIN_URL") or "http://127.0.0.1:8420", found)


def _local_key() -> str | None:
    file = Path(os.environ.get("TOCSIN_DATA_DIR") or ".tocsin") / KEY_FILE
    try:
        return file.read_text().strip() or None
    except OSError:
        return None


def _problem(error: urllib.error.HTTPError) -> str:
    try:
        document = json.load(error)
    except ValueError:
        return f"{error.code} {error.reason}"
    field = f"{document['field']}: " if document.get("field") else ""
    hint = f"\nHint: {document['hint']}" if document.get("hint") else ""
    return f"{field}{document.get('detail', error.reason)} ({error.code}){hint}"
