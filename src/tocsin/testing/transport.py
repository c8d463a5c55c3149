"""How the clients of a test reach the sandbox: without a socket."""

from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2

from tocsin.testing.fleet import Answer

Ask = Callable[[str, str, list[tuple[bytes, bytes]], bytes], Answer]


class SandboxTransport(httpx2.BaseTransport):
    """Answers requests by the sandbox's own API. A request that waits for the end of an execution lets
    everything run that is due: nothing else would come to an end while the test waits."""

    def __init__(self, ask: Ask, drain: Callable[[], object]) -> None:
        self._ask = ask
        self._drain = drain

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request."""
        path, waits = _without_wait(request.url.raw_path.decode())
        if waits:
            self._drain()
        answer = self._ask(request.method, path, list(request.headers.raw), request.read())
        if waits and b'"finished_at":null' in answer.body:
            raise TimeoutError(
                "the execution is not over, and no time passes while a test waits: call advance() before"
            )
        return httpx2.Response(answer.status, headers=answer.headers, content=answer.body)


def _without_wait(path: str) -> tuple[str, bool]:
    """The path without ``wait``, and whether it had one."""
    parts = urlsplit(path)
    given = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in given if name != "wait"]
    if len(kept) == len(given):
        return path, False
    return parts._replace(query=urlencode(kept)).geturl(), True
