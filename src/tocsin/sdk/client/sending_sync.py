"""The synchronous face. Made from `sending` by `python -m tocsin.sdk.client.faces`: change that file."""

from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any, Self

import httpx2

from tocsin.sdk.client.core import TRIED_AGAIN, Request, answer_of, lost, pause_before, place_of, request_of

_DEFAULT_TIMEOUT = 30.0


class Sender:
    """Talks to one API with one key. `timeout` is how many seconds a call may take in all, repetitions
    included."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = _DEFAULT_TIMEOUT,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.url, key = place_of(url, api_key)
        self.timeout = timeout
        headers = {"authorization": f"Bearer {key}"}
        self._http = httpx2.Client(
            base_url=self.url, headers=headers, transport=transport, follow_redirects=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def send(self, request: Request, timeout: float | None = None) -> Any:
        """Make a call, again and again if need be. Raises what the server refused, or `Unavailable`."""
        until = monotonic() + (timeout or self.timeout)
        attempt = 0
        while True:
            attempt += 1
            left = max(0.05, until - monotonic())
            try:
                response = self._http.request(
                    request.method, request.path, content=request.body, headers=request.headers, timeout=left
                )
            except httpx2.TransportError as error:
                pause = pause_before(attempt, until - monotonic(), None)
                if pause is None:
                    raise lost(f"no answer from {self.url}: {error or type(error).__name__}") from error
            else:
                if response.status_code not in TRIED_AGAIN:
                    return answer_of(response.status_code, response.content)
                after = response.headers.get("retry-after")
                pause = pause_before(attempt, until - monotonic(), after)
                if pause is None:
                    return answer_of(response.status_code, response.content)
            sleep(pause)


def pages(client: Sender, path: tuple[str, ...], query: dict[str, Any]) -> Iterator[Any]:
    """The items of a list, page by page."""
    cursor = query.pop("cursor", None)
    while True:
        page = client.send(request_of("GET", *path, query={**query, "cursor": cursor}))
        for item in page["items"]:
            yield item
        cursor = page["next_cursor"]
        if cursor is None:
            return
