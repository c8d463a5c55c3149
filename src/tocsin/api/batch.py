"""``POST /v1/jobs:batch``: up to ten thousand jobs in one request, as a JSON array or line by line (NDJSON).

Lines are checked and written as they arrive, a thousand at a time, so a large import costs little memory.
Each item has its own result; with ``atomic=true`` either all are written or none. A batch that breaks off in
the middle, because the rest is too much, does not arrive, or the database goes away, answers with what became
of each item until then. With an Idempotency-Key each item has a key of its own, made of that and its
position: a batch can be repeated, whole or from a break on, and creates nothing twice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from tocsin.api.batch_items import AT_A_TIME, MAX_ITEMS, items_of, too_many
from tocsin.api.batch_keys import BatchKeys
from tocsin.api.connections import check_connection_of
from tocsin.api.definitions import check_calendars, new_job, read_definition
from tocsin.api.endpoint import ApiCall, Endpoint, Parameter, Reply
from tocsin.api.grpc_targets import with_descriptors
from tocsin.api.problems import Problem, document_of, refused_by_decoder
from tocsin.api.quota import too_many_jobs
from tocsin.api.repeating import REPEATABLE
from tocsin.api.wire import jobs as wire
from tocsin.domain.errors import OutcomeUnknown, Refused, Unavailable
from tocsin.domain.ids import job_text
from tocsin.domain.keys import Scope
from tocsin.store.jobs import NewJob, name_taken
from tocsin.store.repeats import Repeated, used_otherwise

_WRITE: Final = 1000
_decode: Callable[[bytes], wire.NewJob] = msgspec.json.Decoder(wire.NewJob).decode
_log = structlog.get_logger()


class BatchItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fate of one item: the id it got, or the problem with it."""

    index: int
    id: str | None = None
    problem: Problem | None = None


class BatchAnswer(msgspec.Struct, frozen=True):
    """What became of a batch. `items` lists what was created and refused, in order."""

    created: int
    refused: int
    items: list[BatchItem]
    complete: bool
    """Whether all of the batch was looked at. If not, nothing after the last item was."""


async def create_batch(call: ApiCall) -> Reply:
    """Write item by item, or all or none."""
    atomic = call.choice("atomic", ("true", "false")) == "true"
    batch = _Batch(call)
    if atomic:
        await _take_in(batch, call)
        await batch.write_all_or_none()
    else:
        try:
            await _write_as_it_arrives(batch, call)
        except (Refused, Unavailable) as error:
            await batch.break_off(error)
    answer = batch.answer()
    call.context.telemetry.created.inc(batch.new)
    if batch.new:
        _log.info("jobs.created", number=batch.new, tenant=call.asker.tenant_id, request_id=call.request.id)
    else:
        call.changed_nothing()
    headers = {"idempotent-replayed": "true"} if answer.created and not batch.new else {}
    return Reply(answer, 422 if atomic and answer.refused else None, headers)


async def _write_as_it_arrives(batch: "_Batch", call: ApiCall) -> None:
    try:
        await _take_in(batch, call, batch.begin_writing)
    finally:
        await batch.written()
    await batch.write()


async def _take_in(
    batch: "_Batch", call: ApiCall, write: Callable[[], Awaitable[None]] | None = None
) -> None:
    async for items in items_of(call.body):
        for raw in items:
            batch.add(raw)
            if batch.size % AT_A_TIME == 0:
                await asyncio.sleep(0)  # others, and the write under way, get their turn
            if write is not None and len(batch.waiting) >= _WRITE:
                await write()


class _Batch:
    """Items on their way: checked, waiting to be written, decided."""

    def __init__(self, call: ApiCall) -> None:
        self._call = call
        self._keys = BatchKeys(call)
        self._results: list[BatchItem] = []
        self._complete = True
        self._now = call.context.clock.now()
        self._writing: asyncio.Task[None] | None = None
        self.new = 0
        """How many jobs were created just now, not by an earlier request with the same key."""
        self.waiting: list[tuple[int, NewJob]] = []

    @property
    def size(self) -> int:
        """How many items were taken in."""
        return len(self._results)

    async def break_off(self, error: Refused | Unavailable) -> None:
        """Look at nothing more. Items that were checked and can still be written are; each item says what
        became of it."""
        self._complete = False
        if isinstance(error, Refused):
            try:
                await self.write()
            except Unavailable as trouble:
                error = trouble
        if not any(item.id is not None for item in self._results) and not isinstance(error, OutcomeUnknown):
            raise error  # nothing was written
        for index, _ in self.waiting:  # these were never sent
            self._refuse(index, Unavailable(error.detail))
        for item in self._results:
            if item == BatchItem(item.index):
                self._refuse(item.index, error)
        if isinstance(error, Refused):
            self._results.append(BatchItem(len(self._results), problem=document_of(error)))

    def add(self, raw: bytes) -> None:
        """Check an item; its errors concern no other item."""
        index = len(self._results)
        if index >= MAX_ITEMS:
            raise too_many()
        self._results.append(BatchItem(index))
        try:
            new = self._decoded(raw)
            self._keys.add(index, new)
            definition = read_definition(new, self._call, self._now)
            self.waiting.append((index, new_job(definition, self._call, self._now, self._keys.key)))
        except Refused as refused:
            self._refuse(index, refused)

    async def begin_writing(self) -> None:
        """Write what waits while the next items are read. One such write at a time: no batch runs away with
        memory."""
        await self.written()
        waiting, self.waiting = self.waiting, []
        self._writing = asyncio.create_task(self._write(waiting))

    async def written(self) -> None:
        """Wait for the write under way."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    async def write(self) -> None:
        """Write what waits."""
        waiting, self.waiting = self.waiting, []
        await self._write(waiting)

    async def _write(self, waiting: list[tuple[int, NewJob]]) -> None:
        """A taken name is its item's own trouble."""
        waiting = await self._admitted(await self._with_calendars(await self._not_yet_written(waiting)))
        if not waiting:
            return
        jobs = self._call.context.jobs
        try:
            refused = await jobs.define_under(self._keys.of(waiting), self._now)
        except Repeated:  # by a request that was under way at the same time
            await self._write(waiting)
            return
        for index, job in waiting:
            if job.id in refused:
                self._refuse(index, name_taken(job.definition))
            else:
                self._results[index] = BatchItem(index, job_text(job.id))
        self.new += len(waiting) - len(refused)

    async def write_all_or_none(self) -> None:
        """Write everything in one transaction, unless something was refused."""
        waiting = await self._not_yet_written(self.waiting)
        if waiting and len(waiting) < len(self.waiting):
            raise used_otherwise()  # all of the batch has its keys, or none
        waiting = await self._admitted(await self._with_calendars(waiting))
        refused = {item.index for item in self._results if item.problem is not None}
        if not refused and waiting:
            chunks = [waiting[start : start + _WRITE] for start in range(0, len(waiting), _WRITE)]
            try:
                taken = await self._call.context.jobs.define_all(
                    [self._keys.of(c) for c in chunks], self._now
                )
            except Repeated:
                await self.write_all_or_none()
                return
            refused = {index for index, job in waiting if job.id in taken}
            self.new = 0 if refused else len(waiting)
        for index, job in waiting:
            if index in refused:
                self._refuse(index, name_taken(job.definition))
            elif not refused:
                self._results[index] = BatchItem(index, job_text(job.id))

    async def _not_yet_written(self, waiting: list[tuple[int, NewJob]]) -> list[tuple[int, NewJob]]:
        """The items without those that an earlier request with the same key has created, also if it could not
        be now."""
        known = await self._keys.known(item.index for item in self._results if item.id is None)
        for index, job_id in known.items():
            if job_id is None:
                self._refuse(index, used_otherwise())
            else:
                self._results[index] = BatchItem(index, job_text(job_id))
        return [(index, job) for index, job in waiting if self._results[index] == BatchItem(index)]

    def answer(self) -> BatchAnswer:
        """The results so far."""
        created = sum(item.id is not None for item in self._results)
        refused = sum(item.problem is not None for item in self._results)
        return BatchAnswer(created, refused, self._results, self._complete)

    def _decoded(self, raw: bytes) -> wire.NewJob:
        try:
            new = _decode(raw)
        except msgspec.ValidationError as error:
            raise refused_by_decoder(error, wire.NewJob) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(f"not valid JSON: {error}") from None
        if b"\\u0000" in raw:
            raise Refused("text with a NUL character cannot be stored")
        if new.unique is not None or new.debounce is not None:
            raise Refused(
                "a batch has no unique keys: create the job by itself",
                field="unique" if new.unique is not None else "debounce",
            )
        if new.idempotency_key is not None:
            raise Refused(
                "a batch has one key for all of its items: the header Idempotency-Key",
                field="idempotency_key",
            )
        return new

    async def _with_calendars(self, waiting: list[tuple[int, NewJob]]) -> list[tuple[int, NewJob]]:
        """The items, without those that name a calendar or a connection which is not there."""
        ready = []
        for index, job in waiting:
            try:
                if job.definition.schedule.calendars:
                    await check_calendars(job.definition, self._call)
                await check_connection_of(job.definition.target, self._call)
                definition = await with_descriptors(job.definition, self._call)
                ready.append(
                    (index, job if definition is job.definition else replace(job, definition=definition))
                )
            except Refused as refused:
                self._refuse(index, refused)
        return ready

    async def _admitted(self, waiting: list[tuple[int, NewJob]]) -> list[tuple[int, NewJob]]:
        """The first of them, as many as the tenant may have; the others are refused."""
        limit = self._call.asker.limits.pending_jobs
        room = await self._call.context.pending.admit(self._call.asker.tenant_id, limit, len(waiting))
        for index, _ in waiting[room:]:
            self._refuse(index, too_many_jobs(limit or 0))
        return waiting[:room]

    def _refuse(self, index: int, refused: Refused | Unavailable) -> None:
        self._results[index] = BatchItem(index, problem=document_of(refused))


ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/jobs:batch", handler=create_batch, stream=True, body=list[wire.JobBody],
        answer=BatchAnswer, other_statuses=(422,), refusals=(408, 409), **REPEATABLE, body_kinds=("application/x-ndjson",), scope=Scope.WRITE,
        summary="Create up to 10,000 jobs from a JSON array or NDJSON; item by item, or all or none",
        parameters=(Parameter("atomic", "All or none", {"type": "string", "enum": ["true", "false"], "default": "false"}),),
    ),
)  # fmt: skip
