"""How the client sends, asynchronous. The synchronous face is made from this file: see `faces`."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any, Self

import httpx2

from tocsin.sdk.client.core import TRIED_AGAIN, Request, answer_of, lost, pause_before, place_of, request_of

_DEFAULT_TIMEOUT = 30.0


class AsyncSender:
    """Talks to one API with one key. `timeout` is how many seconds a call may take in all, repetitions
    included."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = _DEFAULT_TIMEOUT,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.url, key = place_of(url, api_key)
        self.timeout = timeout
        headers = {"authorization": f"Bearer {key}"}
        self._http = httpx2.AsyncClient(
            base_url=self.url, headers=headers, transport=transport, follow_redirects=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def send(self, request: Request, timeout: float | None = None) -> Any:
        """Make a call, again and again if need be. Raises what the server refused, or `Unavailable`."""
        until = monotonic() + (timeout or self.timeout)
        attempt = 0
        while True:
            attempt += 1
            left = max(0.05, until - monotonic())
            try:
                response = await self._http.request(
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
            await asyncio.sleep(pause)


async def pages(client: AsyncSender, path: tuple[str, ...], query: dict[str, Any]) -> AsyncIterator[Any]:
    """The items of a list, page by page."""
    cursor = query.pop("cursor", None)
    while True:
        page = await client.send(request_of("GET", *path, query={**query, "cursor": cursor}))
        for item in page["items"]:
            yield item
        cursor = page["next_cursor"]
        if cursor is None:
            return
