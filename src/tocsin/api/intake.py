"""Group commit for creations.

Requests that arrive while a commit is under way are written together by the next one: a lone request waits
for nothing, and a flood shares one statement and one fsync among hundreds. Each caller learns the fate of its
own job. A job waits in line no longer than a statement may take; after that its caller is told that nothing
was written.
"""

import asyncio
from collections import deque
from typing import Final, NamedTuple

from tocsin.clock import Clock
from tocsin.db.patience import left, patient_for
from tocsin.db.pool import acting_by_statement, acting_tenants
from tocsin.domain.errors import OutcomeUnknown, Unavailable
from tocsin.store.jobs import JobStore, NewJob, name_taken

_BATCH: Final = 500
_MOST_WAITING: Final = 20_000
_WRITERS: Final = 2


class _Entry(NamedTuple):
    """A job on its way, who waits for it, and since when by the monotonic clock."""

    job: NewJob
    written: asyncio.Future[None]
    since: float


class Intake:
    """Buffers new jobs and writes them in batches."""

    def __init__(self, store: JobStore, clock: Clock, patience: float = 15.0) -> None:
        self._store = store
        self._patience = patience
        self._clock = clock
        self._waiting: deque[_Entry] = deque()
        self._writers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def define(self, job: NewJob) -> None:
        """Write a job; returns when it is durable."""
        if acting_tenants() not in ("", str(job.tenant_id)):
            raise LookupError(
                "a job for another tenant than the request's"
            )  # what a policy would say to a lone one
        if len(self._waiting) >= _MOST_WAITING:
            raise Unavailable("too many creations are waiting for the database", retry_after=1)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Entry(job, written, self._clock.monotonic()))
        if self._writers < _WRITERS:
            self._writers += 1
            task = asyncio.create_task(self._write_all())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            async with asyncio.timeout(left()):
                await written
        except TimeoutError:
            raise OutcomeUnknown("the database did not answer in time") from None

    async def _write_all(self) -> None:
        # One turn of the event loop, so that requests already received join the batch.
        await asyncio.sleep(0)
        try:
            # A batch may be for several tenants; the statement that writes it names them.
            with acting_by_statement(), patient_for(None):
                while self._waiting:
                    batch = self._next_batch()
                    try:
                        if batch:
                            await self._write(batch)
                    finally:
                        _tell(batch, OutcomeUnknown("the creation was interrupted"))
        finally:
            self._writers -= 1

    def _next_batch(self) -> list[_Entry]:
        """The next in line. An entry that waited longer than a statement may take is given up instead, while
        nothing is written."""
        oldest = self._clock.monotonic() - self._patience
        while self._waiting and self._waiting[0].since < oldest:
            _tell([self._waiting.popleft()], Unavailable("too many creations are waiting for the database"))
        return [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]

    async def _write(self, batch: list[_Entry]) -> None:
        # Every process takes names in the same order, so that two batches never wait for each other.
        batch.sort(key=lambda entry: (entry.job.tenant_id, entry.job.definition.name or ""))
        try:
            refused = await self._store.define([entry.job for entry in batch], self._clock.now())
        except Exception as error:  # noqa: BLE001 - every caller must hear of it, whatever it is
            await self._give_up(batch, error)
            return
        for job, written, _ in batch:
            if written.done():
                continue  # the caller went away; the job is there all the same
            if job.id in refused:
                written.set_exception(name_taken(job.definition))
            else:
                written.set_result(None)

    async def _give_up(self, batch: list[_Entry], error: Exception) -> None:
        """Tell the callers; but a job that cannot be written at all fails alone."""
        if len(batch) > 1 and not isinstance(error, Unavailable):
            for entry in batch:
                await self._write([entry])
            return
        _tell(batch, error)


def _tell(batch: list[_Entry], error: Exception) -> None:
    """Tell the error to all callers that still wait."""
    for _, written, _ in batch:
        if not written.done():
            written.set_exception(error)
