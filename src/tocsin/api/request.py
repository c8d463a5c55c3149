"""A request as handlers see it, and which of them answers it.

Both are as little as the API needs: a framework's own, with an object per header access, a chain of
middlewares and a list of patterns to try, took more time than everything that a creation is about.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.responses import Response

_PARAMETER: Final = re.compile(r"{(\w+)}")
_NO_PARAMETERS: Final[Mapping[str, str]] = {}
_NO_QUERY: Final = QueryParams()


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Request:
    """One HTTP request. Header names are lower-case; of a field given twice the first counts."""

    __slots__ = ("_receive", "address", "headers", "id", "method", "parameters", "path", "query", "scheme")

    def __init__(self, scope: Mapping[str, Any], receive: Callable[[], Awaitable[Any]]) -> None:
        self.method: str = scope["method"]
        self.scheme: str = scope["scheme"]
        self.path: str = scope["path"]
        self.headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])
        }
        self.query = QueryParams(scope["query_string"]) if scope["query_string"] else _NO_QUERY
        self.parameters = _NO_PARAMETERS
        self.id = ""
        client = scope.get("client")
        self.address = str(client[0]) if client else "unknown"
        self._receive = receive

    async def stream(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            more = message.get("more_body", False)
            if body := message.get("body"):
                yield body

    async def gone(self) -> None:
        """Returns when the client closes the connection. To be asked once the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


Handle = Callable[[Request], Awaitable[Response]]
Verbs = Mapping[str, Handle]


class Routes:
    """Paths and what answers them: fixed ones by one look-up, those with parameters by their pattern, in
    order. A path that ends with a name takes all that is left, so it is tried after the others."""

    def __init__(self, verbs: Mapping[str, Verbs]) -> None:
        self.verbs = verbs
        paths = sorted((path for path in verbs if "{" in path), key=lambda path: path.endswith("{name}"))
        self._patterns = [(_pattern(path), verbs[path]) for path in paths]

    def find(self, path: str) -> tuple[Verbs, Mapping[str, str]] | None:
        """The handles of a path by method, and the parameters in it."""
        if (fixed := self.verbs.get(path)) is not None and "{" not in path:
            return fixed, _NO_PARAMETERS
        for pattern, verbs in self._patterns:
            if found := pattern.fullmatch(path):
                return verbs, found.groupdict()
        return None


def _pattern(path: str) -> re.Pattern[str]:
    """A parameter is what stands between two slashes; a `name` may have slashes of its own."""
    parts = _PARAMETER.split(path)
    texts = [re.escape(part) for part in parts[::2]]
    groups = [f"(?P<{name}>{'.*' if name == 'name' else '[^/]+'})" for name in parts[1::2]]
    return re.compile("".join(map("".join, zip(texts, [*groups, ""], strict=True))), re.DOTALL)
