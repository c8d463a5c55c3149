"""Executions, live and finished in one shape, with their attempts; and the facts that explain one."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from tocsin.api.wire.pages import CursorInstant, Page
from tocsin.api.wire.scalars import Time, time_of
from tocsin.domain.explain import Facts, Step
from tocsin.domain.ids import (
    ExecutionKey,
    ExecutionText,
    JobText,
    WorkerText,
    execution_text,
    job_text,
    worker_text,
)
from tocsin.domain.instant import MILLISECOND, Instant, format_instant
from tocsin.domain.lifecycle import FINAL, CancelResult, State
from tocsin.domain.outcome import Attempt, Outcome, Verdict
from tocsin.domain.protocol import Progress
from tocsin.domain.waits import Wait

ExecutionPlace = tuple[UUID, CursorInstant, CursorInstant | None]
JobExecutionPlace = tuple[CursorInstant, bool]


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One try at an execution."""

    number: int
    verdict: Verdict | None
    started_at: Time | None
    finished_at: Time | None
    duration_ms: float | None
    node: int | None
    error: str | None
    detail: dict[str, Any] | None
    worker: WorkerText | None
    result: Any = None
    """What the task returned, if it was the last attempt and one execution was asked for."""


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One firing of a job."""

    id: ExecutionText
    job_id: JobText
    job_name: str | None
    state: State
    cause: str
    queue: str
    priority: int
    fire_at: Time
    due_at: Time
    run_at: Time
    started_at: Time | None
    finished_at: Time | None
    lag_ms: float | None
    attempt: int
    reason: str | None
    cancel_requested: bool
    rerun_of: ExecutionText | None = None
    backfill: int | None = None
    fire_until: Time | None = None
    fire_count: int = 1
    discarded_at: Time | None = None
    archived: bool = False
    """Whether it left the database, and is answered from the archive."""
    progress: Progress | None = None
    attempts: list[AttemptView] = []


class CancelledExecution(Execution, frozen=True, kw_only=True):
    """An execution as a cancellation left it. `final_state` is there if it is over, which it may be by its
    own end."""

    answer: CancelResult
    final_state: State | None


class ExecutionPage(Page, frozen=True, kw_only=True):
    """Executions."""

    items: list[Execution]


class LogView(msgspec.Struct, frozen=True):
    """A line that an attempt logged."""

    attempt: int
    seq: int
    at: Time
    level: str
    message: str
    fields: dict[str, Any] | None


class LogPage(Page, frozen=True, kw_only=True):
    """Lines of an execution's attempts, in order."""

    items: list[LogView]


class StepView(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """A part of an execution's life: what happened or held it back, from when to when."""

    kind: str
    words: str
    since: Time | None
    until: Time | None
    link: str | None
    """The page of the dashboard with what it waited for, ran into or came from."""


class Explanation(msgspec.Struct, frozen=True):
    """Why an execution waited, was late, was skipped, or is where it is: in words, and the same as steps."""

    execution: Execution
    explanation: list[str]
    steps: list[StepView]


def explanation(
    row: Any, steps: Sequence[Step], links: Sequence[str | None], name: str | None = None
) -> Explanation:
    """An execution's row and its story, under its job's name."""
    views = [
        StepView(step.kind, step.words, time_of(step.since), time_of(step.until), link)
        for step, link in zip(steps, links, strict=True)
    ]
    return Explanation(execution_view(row, name, attempts=True), [step.words for step in steps], views)


def execution_view(
    row: Any, name: str | None = None, *, attempts: bool = False, result: str | None = None
) -> Execution:
    """An execution from its row, live or finished, under its job's name. `result` is JSON text."""
    started = _first_start(row)
    return Execution(
        id=name_of(row),
        job_id=job_text(row["job_id"]),
        job_name=name if name is not None else row.get("job_name"),
        state=state_of(row),
        cause=row["cause"],
        queue=row["queue"],
        priority=row["priority"],
        fire_at=format_instant(row["fire_at"]),
        due_at=format_instant(row["due_at"]),
        run_at=format_instant(row["run_at"]),
        started_at=time_of(row["started_at"]),
        finished_at=time_of(row["finished_at"]),
        lag_ms=None if started is None else (started - row["due_at"]) / MILLISECOND,
        attempt=row["attempt"],
        reason=row["reason"],
        cancel_requested=row["cancel_requested"],
        rerun_of=_origin(row),
        backfill=row["backfill_id"],
        fire_until=time_of(row["fire_until"]),
        fire_count=row["fire_count"],
        discarded_at=time_of(row["discarded_at"]),
        archived=bool(row.get("archived")),
        progress=msgspec.json.decode(row["progress"], type=Progress, strict=False)
        if row["progress"]
        else None,
        attempts=_attempts(row, result) if attempts else [],
    )


def state_of(row: Any) -> State:
    """The state in a row. One that only a newer version knows fails as other unreadable fields do."""
    return msgspec.convert(row["state"], State)


def log_view(row: Any) -> LogView:
    """A line from its row."""
    fields = msgspec.json.decode(row["fields"]) if row["fields"] else None
    return LogView(
        row["attempt"], row["seq"], format_instant(row["at"]), row["level"], row["message"], fields
    )


def cancelled_view(row: Any, answer: CancelResult, now: Any) -> CancelledExecution:
    """An execution as a cancellation left it; `now` is its row read once more, if it could be."""
    final = None if now is None or now["state"] not in FINAL else state_of(now)
    view = msgspec.structs.asdict(execution_view(row, attempts=True))
    return CancelledExecution(**view, answer=answer, final_state=final)


def name_of(row: Any) -> str:
    """The id of an execution."""
    return execution_text(ExecutionKey(row["job_id"], row["fire_at"]))


def facts_of(row: Any) -> Facts:
    """What `explain` needs to know of an execution."""
    return Facts(
        state=state_of(row),
        cause=row["cause"],
        due_at=row["due_at"],
        run_at=row["run_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        deadline_at=row["deadline_at"],
        attempt=row["attempt"],
        attempts=_earlier(row),
        reason=row["reason"],
        cancel_requested=row["cancel_requested"],
        start_by=row["start_by"],
        overlap=row["overlap"],
        limit_key=row["limit_key"],
        waits_for=row["waits_for"],
        waits=msgspec.json.decode(row["waits"], type=list[Wait]) if row["waits"] else [],
        late_for=row["late_for"],
        missed_after=row["missed_after"],
    )


def _origin(row: Any) -> str | None:
    """The execution that this one runs again."""
    origin = row["origin_fire_at"]
    return None if origin is None else execution_text(ExecutionKey(row["job_id"], origin))


def _first_start(row: Any) -> Instant | None:
    """When the first attempt started: lag is about that, not about retries."""
    earlier = _earlier(row)
    start: Instant | None = earlier[0].started_at if earlier else row["started_at"]
    return start


def _attempts(row: Any, result: str | None = None) -> list[AttemptView]:
    views = [_attempt_view(attempt) for attempt in _earlier(row)]
    if row["started_at"] is not None:
        last = _attempt_view(_last_attempt(row), running=row["finished_at"] is None)
        views.append(msgspec.structs.replace(last, result=msgspec.json.decode(result)) if result else last)
    return views


def _earlier(row: Any) -> list[Attempt]:
    return msgspec.json.decode(row["attempts"], type=list[Attempt]) if row["attempts"] else []


def _last_attempt(row: Any) -> Attempt:
    verdict = Verdict.SUCCEEDED if row["state"] == "succeeded" else Verdict.FAILED
    outcome = msgspec.json.decode(row["outcome"], type=Outcome) if row["outcome"] else Outcome(verdict)
    return Attempt(
        row["attempt"],
        outcome.verdict,
        row["started_at"],
        row["finished_at"],
        row["node_id"],
        outcome.error,
        outcome.detail,
        row["worker_id"],
    )


def _attempt_view(attempt: Attempt, *, running: bool = False) -> AttemptView:
    took = None
    if attempt.started_at is not None and attempt.finished_at is not None:
        took = (attempt.finished_at - attempt.started_at) / MILLISECOND
    return AttemptView(
        number=attempt.number,
        verdict=None if running else attempt.verdict,
        started_at=time_of(attempt.started_at),
        finished_at=time_of(attempt.finished_at),
        duration_ms=took,
        node=attempt.node_id,
        error=attempt.error,
        detail=attempt.detail,
        worker=None if attempt.worker_id is None else worker_text(attempt.worker_id),
    )
