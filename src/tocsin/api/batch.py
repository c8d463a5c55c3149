"""``POST /v1/jobs:batch``: up to ten thousand jobs in one request, as a JSON array or line by line (NDJSON).

Lines are checked and written as they arrive, a thousand at a time, so a large import costs little memory. Each
item has its own result; with ``atomic=true`` either all are written or none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from tocsin.api.definitions import check_calendars, new_job, read_definition
from tocsin.api.endpoint import Call, Endpoint, Parameter, Reply
from tocsin.api.problems import Problem, document_of, refused_by_decoder
from tocsin.api.quota import too_many_jobs
from tocsin.api.wire import jobs as wire
from tocsin.domain.errors import Refused
from tocsin.domain.ids import job_text
from tocsin.domain.keys import Scope
from tocsin.store.jobs import NewJob, name_taken

MAX_ITEMS: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_LINE: Final = 1024 * 1024
_WRITE: Final = 1000
_TURN: Final = 50
_decode: Callable[[bytes], wire.NewJob] = msgspec.json.Decoder(wire.NewJob).decode


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


async def create_batch(call: Call) -> Reply:
    """Write item by item, or all or none."""
    atomic = call.choice("atomic", ("true", "false")) == "true"
    batch = _Batch(call)
    status = None
    try:
        async for items in _items(call):
            for raw in items:
                batch.add(raw)
                if batch.size % _TURN == 0:
                    await asyncio.sleep(0)  # others, and the write under way, get their turn
                if not atomic and len(batch.waiting) >= _WRITE:
                    await batch.begin_writing()
    except Refused as refused:
        if atomic or not batch.size:
            raise
        # Part of it is written: say what, and where it went wrong.
        batch.end_with(refused)
        status = refused.status
    finally:
        await batch.written()
    if atomic:
        await batch.write_all_or_none()
    else:
        await batch.write()
    answer = batch.answer()
    call.context.telemetry.created.inc(answer.created)
    if not answer.created:
        call.changed_nothing()
    return Reply(answer, 422 if atomic and answer.refused else status)


class _Batch:
    """Items on their way: checked, waiting to be written, decided."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._results: list[BatchItem] = []
        self._now = call.context.clock.now()
        self._writing: asyncio.Task[None] | None = None
        self.waiting: list[tuple[int, NewJob]] = []

    @property
    def size(self) -> int:
        """How many items were taken in."""
        return len(self._results)

    def end_with(self, refused: Refused) -> None:
        """Nothing after this item was looked at."""
        self._results.append(BatchItem(len(self._results), problem=document_of(refused)))

    def add(self, raw: bytes) -> None:
        """Check an item; what is wrong with it concerns nobody else."""
        index = len(self._results)
        if index >= MAX_ITEMS:
            raise Refused(f"a batch has at most {MAX_ITEMS:,} items")
        self._results.append(BatchItem(index))
        try:
            self.waiting.append((index, self._read(raw)))
        except Refused as refused:
            self._refuse(index, refused)

    async def begin_writing(self) -> None:
        """Write what waits while the next items are read. One such write at a time: no batch runs away with memory."""
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
        waiting = await self._admitted(await self._with_calendars(waiting))
        if not waiting:
            return
        refused = await self._call.context.jobs.define(
            [job for _, job in waiting], self._now, one_request=True
        )
        for index, job in waiting:
            if job.id in refused:
                self._refuse(index, name_taken(job.definition))
            else:
                self._results[index] = BatchItem(index, job_text(job.id))

    async def write_all_or_none(self) -> None:
        """Write everything in one transaction, unless something was refused."""
        waiting = await self._admitted(await self._with_calendars(self.waiting))
        refused = {item.index for item in self._results if item.problem is not None}
        if not refused:
            chunks = [waiting[start : start + _WRITE] for start in range(0, len(waiting), _WRITE)]
            jobs = [[job for _, job in chunk] for chunk in chunks]
            taken = await self._call.context.jobs.define_all(jobs, self._now)
            refused = {index for index, job in waiting if job.id in taken}
        for index, job in waiting:
            if index in refused:
                self._refuse(index, name_taken(job.definition))
            elif not refused:
                self._results[index] = BatchItem(index, job_text(job.id))

    def answer(self) -> BatchAnswer:
        """The results so far."""
        created = sum(item.id is not None for item in self._results)
        return BatchAnswer(created, sum(item.problem is not None for item in self._results), self._results)

    def _read(self, raw: bytes) -> NewJob:
        try:
            new = _decode(raw)
        except msgspec.ValidationError as error:
            raise refused_by_decoder(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(f"not valid JSON: {error}") from None
        if b"\\u0000" in raw:
            raise Refused("text with a NUL character cannot be stored")
        if new.idempotency_key is not None:
            raise Refused(
                "keys belong to single creations; use atomic=true to repeat a batch", field="idempotency_key"
            )
        return new_job(read_definition(new, self._call, self._now), self._call, self._now)

    async def _with_calendars(self, waiting: list[tuple[int, NewJob]]) -> list[tuple[int, NewJob]]:
        """The items, without those that name a calendar which is not there."""
        ready = []
        for index, job in waiting:
            try:
                if job.definition.schedule.calendars:
                    await check_calendars(job.definition, self._call)
                ready.append((index, job))
            except Refused as refused:
                self._refuse(index, refused)
        return ready

    async def _admitted(self, waiting: list[tuple[int, NewJob]]) -> list[tuple[int, NewJob]]:
        """The first of them, as many as the tenant may have; the others are refused."""
        limit = self._call.caller.limits.pending_jobs
        room = await self._call.context.pending.admit(self._call.caller.tenant_id, limit, len(waiting))
        for index, _ in waiting[room:]:
            self._refuse(index, too_many_jobs(limit or 0))
        return waiting[:room]

    def _refuse(self, index: int, refused: Refused) -> None:
        self._results[index] = BatchItem(index, problem=document_of(refused))


async def _items(call: Call) -> AsyncIterator[list[bytes]]:
    """The items of the body, each as its own JSON text, as many at a time as have arrived."""
    request: Any = call.body
    if "ndjson" in request.headers.get("content-type", ""):
        async for lines in _lines(request.stream()):
            yield lines
        return
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        _check_size(len(body))
    try:
        items = msgspec.json.decode(bytes(body), type=list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise refused_by_decoder(error) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the body is neither a JSON array nor NDJSON: {error}") from None
    for start in range(0, len(items), _TURN):
        yield [bytes(item) for item in items[start : start + _TURN]]


async def _lines(stream: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    rest, size = b"", 0
    async for chunk in stream:
        size += len(chunk)
        _check_size(size)
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE:  # what waits for its end is copied with every chunk
            raise _TooLarge(f"a line is at most {MAX_LINE >> 20} MiB")
        if whole := [line for line in lines if line.strip()]:
            yield whole
    if rest.strip():
        yield [rest]


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise _TooLarge(f"a batch is at most {MAX_BYTES >> 20} MiB")


class _TooLarge(Refused):
    status = 413


ENDPOINTS = (
    Endpoint(
        method="POST", path="/v1/jobs:batch", handler=create_batch, stream=True, body=list[wire.JobBody],
        answer=BatchAnswer, other_statuses=(413, 422), body_kinds=("application/x-ndjson",), scope=Scope.WRITE,
        summary="Create up to 10,000 jobs from a JSON array or NDJSON; item by item, or all or none",
        parameters=(Parameter("atomic", "All or none", {"type": "string", "enum": ["true", "false"], "default": "false"}),),
    ),
)  # fmt: skip
