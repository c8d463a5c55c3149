"""How a request may come in: with a key in its header, or from a browser with the cookie of a session.

A key proves itself. A cookie does not: browsers send it along with whatever a page makes them ask. So it
counts only with the header `Tocsin-Dashboard`, which neither a form nor a foreign page can send (there is no
CORS), and where the browser says whence the request comes, that must be our own page. A listener on a
loopback address answers browsers under loopback names only, so that a foreign name that resolves to this
machine gets nothing.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tocsin.api.auth import TENANT_HEADER, Authenticator
from tocsin.api.endpoint import Asker
from tocsin.api.request import Request
from tocsin.domain.errors import Unauthorized
from tocsin.domain.keys import Scope

SECURE_COOKIE: Final = "__Host-tocsin"
PLAIN_COOKIE: Final = "tocsin"
_OURS: Final = "tocsin-dashboard"
_LONGEST_TOKEN: Final = 128


class Doors(msgspec.Struct, frozen=True):
    """Under which names browsers may come."""

    loopback_only: bool = False
    public_url: str | None = None

    @property
    def prefix(self) -> str:
        """The path that a proxy in front of us takes away."""
        return urlsplit(self.public_url or "").path.rstrip("/")

    def check(self, request: Request) -> None:
        """Refuse a browser that came under a name that is not ours."""
        host = request.headers.get("host", "")
        if self.public_url is not None and host == urlsplit(self.public_url).netloc:
            return
        if is_loopback(host) or not (self.loopback_only or self.public_url):
            return
        raise Unauthorized(f"nothing is answered under the name {host[:80]!r}", status=403)

    def secure(self, request: Request) -> bool:
        """Whether the browser keeps a cookie that is only for secure connections."""
        return request.scheme == "https" or (self.public_url or "").startswith("https:")


ANY_HOST: Final = Doors()


class Entrance:
    """Finds out who a request comes from."""

    def __init__(self, authenticator: Authenticator, doors: Doors) -> None:
        self._authenticator = authenticator
        self.doors = doors

    async def admit(self, request: Request, scope: Scope) -> Asker:
        """The asker, if it may come in and has the scope."""
        header, tenant = request.headers.get("authorization"), request.headers.get(TENANT_HEADER)
        token = None if header is not None else session_token(request.headers)
        if token is None:
            return await self._authenticator.authenticate(header, scope, tenant)
        self.check_browser(request)
        return await self._authenticator.authenticate_session(token, scope, tenant)

    def check_browser(self, request: Request) -> None:
        """Refuse what a foreign page makes a browser ask."""
        headers = request.headers
        self.doors.check(request)
        if headers.get(_OURS) is None:
            raise Unauthorized("a cookie counts only with the header Tocsin-Dashboard", status=403)
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Unauthorized("a cookie counts only for requests of our own page", status=403)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise Unauthorized("a cookie counts only for requests of our own page", status=403)


def session_token(headers: Mapping[str, str]) -> str | None:
    """The token of a session in the request's cookies; the safer cookie first."""
    cookies: dict[str, str] = {}
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        cookies.setdefault(name, value)
    token = cookies.get(SECURE_COOKIE) or cookies.get(PLAIN_COOKIE)
    return token if token and len(token) <= _LONGEST_TOKEN else None


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine itself."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
