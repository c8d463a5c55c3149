"""A worker's line to the gateway: the calls of the protocol, and what to do when one is not answered.

A call that had no answer, or found the server busy, is repeated as it was after a short random pause, for as
long as it is wanted. A refusal is raised: an unknown worker has to register again, a bad key ends the worker.
"""

import random
from collections.abc import Callable
from time import sleep
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from tocsin.domain.errors import Unavailable
from tocsin.domain.protocol import (
    Ask,
    ClaimName,
    Given,
    Heard,
    Heartbeat,
    NewWorker,
    Registered,
    Release,
    Released,
    SettledAll,
    Settlements,
    TaskSettlement,
)
from tocsin.sdk.client.core import TRIED_AGAIN, error_of, place_of, seconds_of

T = TypeVar("T")
_TIMEOUT: Final = 10.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_LONGEST_WAIT: Final = 60.0
"""Seconds that a server may ask for before the next try."""


class Busy(Unavailable):
    """The server asks to come back, after some seconds at least."""

    def __init__(self, detail: str, after: float) -> None:
        super().__init__(detail)
        self.after = after


class Link:
    """Calls of one worker. Each thread that calls has a link, and so a connection, of its own."""

    def __init__(self, url: str | None, api_key: str | None) -> None:
        self.url, key = place_of(url, api_key)
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        self._http = httpx2.Client(base_url=self.url, headers=headers, follow_redirects=False)

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def register(self, new: NewWorker) -> Registered:
        """Introduce the worker."""
        return self._post("/v1/workers", new, Registered)

    def claim(self, worker: str, ask: Ask) -> Given:
        """Settle, then wait for work."""
        return self._post(f"/v1/workers/{worker}/claim", ask, Given, ask.wait_ms / 1000)

    def settle(self, worker: str, settlements: list[TaskSettlement]) -> SettledAll:
        """Say what became of attempts."""
        return self._post(f"/v1/workers/{worker}/settle", Settlements(settlements), SettledAll)

    def heartbeat(self, worker: str, beat: Heartbeat) -> Heard:
        """Be there."""
        return self._post(f"/v1/workers/{worker}/heartbeat", beat, Heard)

    def release(self, worker: str, names: list[ClaimName]) -> None:
        """Give back what was not run."""
        self._post(f"/v1/workers/{worker}/release", Release(names), Released)

    def leave(self, worker: str) -> None:
        """Say goodbye."""
        self._send("DELETE", f"/v1/workers/{worker}", None, _TIMEOUT)

    def _post(self, path: str, body: Any, kind: type[T], wait: float = 0.0) -> T:
        raw = self._send("POST", path, msgspec.json.encode(body), wait + _TIMEOUT)
        return msgspec.json.decode(raw, type=kind)

    def _send(self, method: str, path: str, body: bytes | None, timeout: float) -> bytes:
        try:
            response = self._http.request(method, path, content=body, timeout=timeout)
        except httpx2.TransportError as error:
            raise Unavailable(f"no answer from {self.url}: {error or type(error).__name__}") from error
        if response.status_code in TRIED_AGAIN:
            after = min(seconds_of(response.headers.get("retry-after")), _LONGEST_WAIT)
            raise Busy(f"{self.url} answered {response.status_code}", after)
        if response.status_code >= 400:
            raise error_of(response.status_code, response.content)
        content: bytes = response.content
        return content


def persistently(call: Callable[[], T], wanted: Callable[[], bool]) -> T | None:
    """The answer to a call, which is repeated while there is none. None: it was not wanted any longer."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return call()
        except Unavailable as error:
            if not wanted():
                return None
            at_least = error.after if isinstance(error, Busy) else 0.0
        sleep(max(at_least, pause * random.uniform(0.5, 1.0)))
        pause = min(2 * pause, _LONGEST_PAUSE)
