"""What the installation recorded of a measurement's executions, once all of them are over.

Only recorded times count: this machine's clock is never held against the server's. History is listed latest
first, so a look ends at the first page that tells nothing new; a look that finds nothing is followed by one
through all pages, because what ended earlier may be written later. All executions are read, none is guessed
from a sample.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tocsin.cli.bench_api import Api
from tocsin.cli.client import ApiError
from tocsin.domain.instant import Instant, format_instant, parse_instant

_PAGE: Final = 500
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0


class Fired(msgspec.Struct, frozen=True):
    """An execution that ran."""

    started_at: Instant
    finished_at: Instant
    lag_ms: float


class Stuck(ApiError):
    """Nothing went on for a while; the message says why, as far as can be known."""


async def finished(
    api: Api,
    job_ids: set[str],
    within: tuple[Instant, Instant],
    *,
    patience: float,
    tell: Callable[[int], None] = lambda _: None,
) -> list[Fired]:
    """The executions of some one-offs that fire `within` a first and a last instant. Gives up when none ended
    for `patience` seconds."""
    watch = _Watch(api, job_ids, within)
    pause, news_at, whole = _FIRST_PAUSE, time.monotonic(), False
    while watch.missing:
        whole = not await watch.look(whole=whole)
        if not whole:
            news_at = time.monotonic()
            tell(len(watch.found))
        elif time.monotonic() - news_at > patience:
            raise await _stuck(api, watch.missing, len(job_ids), patience)
        await asyncio.sleep(pause if watch.missing else 0)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return watch.found


class _Watch:
    """What is known so far."""

    def __init__(self, api: Api, job_ids: set[str], within: tuple[Instant, Instant]) -> None:
        self.missing = set(job_ids)
        self.found: list[Fired] = []
        self._api = api
        # Succeeded ones alone: a listing of live ones walks through all that the tenant has waiting.
        self._query = {
            "state": "succeeded",
            "fire_from": format_instant(within[0]),
            "fire_to": format_instant(within[1] + 1),
            "limit": _PAGE,
        }

    async def look(self, *, whole: bool) -> bool:
        """Read what is new. Whether anything was."""
        before, cursor = len(self.found), None
        while self.missing:
            page = await self._api.get("executions", **self._query, cursor=cursor)
            fresh = [item for item in page["items"] if item["job_id"] in self.missing]
            self.missing -= {item["job_id"] for item in fresh}
            self.found += map(_fired, fresh)
            cursor = page["next_cursor"]
            if cursor is None or not (fresh or whole):
                break
        return len(self.found) > before


def _fired(item: Any) -> Fired:
    return Fired(
        parse_instant(item["started_at"], "started_at"),
        parse_instant(item["finished_at"], "finished_at"),
        item["lag_ms"],
    )


async def _stuck(api: Api, missing: set[str], of: int, patience: float) -> Stuck:
    """What `explain` says of one of them."""
    page = await api.get("jobs", min(missing), "executions", limit=1)
    words = "One of them was deleted."
    if page["items"]:
        told = await api.get("executions", page["items"][0]["id"], "explain")
        words = " ".join(told["explanation"])
    count = f"{len(missing):,} of {of:,} executions" if of > 1 else "The execution"
    return Stuck(f"{count} did not end, and nothing went on for {patience:.0f} s. {words}")
