"""The dashboard as files: one HTML shell for every page, scripts and styles under `/assets`.

The files are built by `web/build.py` and read into memory once. Names of assets contain their hash, so
browsers keep them for good; the shell names the current ones and is asked for each time. Without built files
the shell is a page that says how to get them, and the API works all the same. Nothing here knows a user or a
tenant: data come from `/v1`.
"""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import Response

from tocsin.api.entrance import Doors
from tocsin.api.request import Request

STATIC: Final = Path(__file__).parent / "static"
# The first part of every page's path; anything else is answered with the shell, too, but as not found.
PAGES: Final = frozenset(
    [
        "",
        "fires",
        "alerts",
        "jobs",
        "executions",
        "dead-letters",
        "operations",
        "queues",
        "fleet",
        "workers",
        "calendars",
        "secrets",
        "connections",
        "tenants",
        "keys",
        "audit",
        "system",
        "words",
        "login",
    ]
)
_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
_FOR_GOOD: Final = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
_EACH_TIME: Final = {"cache-control": "no-cache"}
_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32'"
    " rx='8' fill='%23b4531a'/%3E%3Cpath d='M16 6a7 7 0 0 0-7 7v6l-2 3h18l-2-3v-6a7 7 0 0 0-7-7zm-3 18a3 3 0 0 0 6 0z'"
    " fill='%23fff'/%3E%3C/svg%3E"
)
_SHELL: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="base" content="{prefix}"><meta name="color-scheme" content="light dark">
<title>Tocsin</title><link rel="icon" href="{icon}">
{head}</head><body>{body}</body></html>
"""
_NOT_BUILT: Final = """<main><h1>Tocsin is running</h1>
<p>The API answers under <code>/v1</code>. The dashboard was not built, so there is nothing to see here yet.</p>
<p>Building it takes Python and a package registry for JavaScript. With one within reach, stop <code>make run</code> and start it
again, or run <code>python3 web/build.py</code>, which says what is missing. Releases contain the built dashboard.</p></main>"""


class _File(msgspec.Struct, frozen=True):
    content: bytes
    compressed: bytes
    kind: str


class Dashboard:
    """Answers browsers. Give it to the application as its pages."""

    def __init__(self, doors: Doors, directory: Path = STATIC) -> None:
        self._doors = doors
        self._files = _read(directory)
        self.built = "manifest.json" in {file.name for file in _files_of(directory)}
        manifest = json.loads((directory / "manifest.json").read_text()) if self.built else None
        self._shell = _shell(doors.prefix, manifest)

    def __call__(self, request: Request) -> Response | None:
        """The page or file of a path; None for what is not a browser's business."""
        if request.method not in ("GET", "HEAD") or request.path.startswith("/v1/"):
            return None
        if request.path.startswith("/assets/"):
            return self._asset(request)
        found = request.path.split("/")[1] in PAGES
        if not _takes_html(request.headers, known_page=found):
            return None
        self._doors.check(request)
        headers = _HEADERS | _EACH_TIME
        return Response(self._shell, 200 if found else 404, headers, media_type="text/html")

    def _asset(self, request: Request) -> Response | None:
        file = self._files.get(request.path.removeprefix("/assets/"))
        if file is None:
            return None
        headers = _HEADERS | _FOR_GOOD
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                file.compressed, headers=headers | {"content-encoding": "gzip"}, media_type=file.kind
            )
        return Response(file.content, headers=headers, media_type=file.kind)


def _takes_html(headers: Mapping[str, str], *, known_page: bool) -> bool:
    """Whether a page is wanted. A program that mistyped a route is told so in JSON."""
    accepted = headers.get("accept", "")
    return "text/html" in accepted or (known_page and "*/*" in accepted)


def _files_of(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _read(directory: Path) -> dict[str, _File]:
    return {
        file.name: _File(file.read_bytes(), Path(f"{file}.gz").read_bytes(), _TYPES[file.suffix])
        for file in _files_of(directory)
        if file.suffix in _TYPES
    }


def _shell(prefix: str, manifest: Mapping[str, str] | None) -> bytes:
    if manifest is None:
        head, body = "", _NOT_BUILT
    else:
        assets = f"{escape(prefix)}/assets"
        head = (
            f'<link rel="stylesheet" href="{assets}/{manifest["style"]}">\n'
            f'<script type="module" src="{assets}/{manifest["script"]}"></script>\n'
        )
        body = '<div id="app"></div><noscript>The dashboard needs JavaScript. The API and the command line do not.</noscript>'
    return _SHELL.format(prefix=escape(prefix), icon=_ICON, head=head, body=body).encode()
