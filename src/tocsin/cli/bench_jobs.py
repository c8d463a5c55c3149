"""The jobs of one measurement: made, remembered, deleted.

Nothing is left behind by accident. A creation that was sent is waited for even if its measurement is called
off, so that its id is known; and at the end the run's tag is looked for, in case an answer got lost on the
way.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from tocsin.cli.bench_api import Api, each
from tocsin.cli.client import ApiError
from tocsin.domain.instant import Instant, format_instant

TAG: Final = "tocsin-bench"
MOST_IN_A_BATCH: Final = 10_000
_PAGE: Final = 500
T = TypeVar("T")


class BenchJobs:
    """No-op one-offs of a run, known by a tag of their own. A name would be dearer: parts of it are
    indexed."""

    def __init__(self, api: Api, queue: str, at_once: int) -> None:
        self.tag = f"{TAG}-{secrets.token_hex(4)}"
        self.created = 0
        self.deleted = 0
        self._api = api
        self._queue = queue
        self._at_once = at_once
        self._ids: set[str] = set()
        self._under_way: set[asyncio.Task[Any]] = set()

    @property
    def left(self) -> int:
        """How many of them are there."""
        return len(self._ids)

    async def create(self, at: Instant) -> tuple[str, float]:
        """One job by one request. Returns its id and how many seconds that took."""
        return await self._to_the_end(self._create(at))

    async def create_batch(
        self, instants: Sequence[Instant], *, atomic: bool = False
    ) -> tuple[set[str], float]:
        """A job per instant by one request. Returns their ids and how many seconds that took."""
        return await self._to_the_end(self._create_batch(instants, atomic=atomic))

    async def delete_all(self, tell: Callable[[int], None]) -> None:
        """Delete them all, and whatever else has the run's tag."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        await each(tuple(self._ids), lambda job_id: self._delete(job_id, tell), self._at_once)
        await self.sweep(self.tag, tell)

    async def sweep(self, tag: str, tell: Callable[[int], None]) -> None:
        """Delete what has a tag."""
        while True:
            page = await self._api.get("jobs", tag=tag, limit=_PAGE)
            if not page["items"]:
                return
            await each(
                [job["id"] for job in page["items"]], lambda job_id: self._delete(job_id, tell), self._at_once
            )

    async def _create(self, at: Instant) -> tuple[str, float]:
        job, took = await self._api.post("jobs", body=self._body(at))
        self._ids.add(job["id"])
        self.created += 1
        return job["id"], took

    async def _create_batch(self, instants: Sequence[Instant], *, atomic: bool) -> tuple[set[str], float]:
        lines = {at: self._body(at) for at in set(instants)}
        answer, took = await self._api.batch([lines[at] for at in instants], atomic=atomic)
        made = {item["id"] for item in answer["items"] if item.get("id")}
        self._ids |= made
        self.created += len(made)
        for problem in (item["problem"] for item in answer["items"] if item.get("problem")):
            hint = f"\nHint: {problem['hint']}" if problem.get("hint") else ""
            raise ApiError(f"{problem['detail']} ({problem['status']}){hint}", problem["status"])
        return made, took

    async def _delete(self, job_id: str, tell: Callable[[int], None]) -> None:
        await self._api.delete("jobs", job_id)
        self._ids.discard(job_id)
        self.deleted += 1
        tell(self.deleted)

    async def _to_the_end(self, creation: Coroutine[Any, Any, T]) -> T:
        """Wait for a creation; should this wait be cancelled, the creation goes on and is remembered."""
        task = asyncio.create_task(creation)
        self._under_way.add(task)
        task.add_done_callback(self._is_over)
        return await asyncio.shield(task)

    def _is_over(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # callers that still wait have heard of it

    def _body(self, at: Instant) -> bytes:
        job = {
            "schedule": {"at": format_instant(at)},
            "target": {"kind": "noop"},
            "queue": self._queue,
            "tags": [TAG, self.tag],
        }
        return json.dumps(job).encode()
