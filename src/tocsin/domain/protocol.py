"""What remote workers and gateways say to each other: version 1 of the worker protocol, as values.

Unknown fields of requests are refused, so that a misspelt one is not ignored. Unknown fields of answers are
ignored, so that old workers understand new gateways. Tokens are text: they have 63 bits, and the numbers of
many languages 53.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.ids import ExecutionText, WorkerText
from tocsin.domain.instant import MINUTE, SECOND, Span, format_span, parse_instant, parse_span
from tocsin.domain.job import check_name
from tocsin.domain.task_target import WrittenTask, check_task_name
from tocsin.domain.written import SpanText, WrittenName, at_most, between, described, line

PROTOCOL: Final = 1
MAX_BODY: Final = 8 * 1024 * 1024
BATCH_MAX: Final = 1000
WAIT_MAX_MS: Final = 30_000
MAX_RESULT: Final = 256 * 1024
MAX_TRACE: Final = 16 * 1024
MAX_MESSAGE: Final = 4096
MAX_LOG_LINES: Final = 1000
"""Of one attempt, and `MAX_LOG_BYTES` of text."""
MAX_LOG_BYTES: Final = 256 * 1024
MAX_TASKS: Final = 1000
MAX_QUEUES: Final = 100
MAX_CAPACITY: Final = 10_000
MAX_HELD: Final = 10_000
"""Claims of one worker at once, those that run and those that are ready: one heartbeat names them all."""
MAX_NOTE: Final = 200
_MAX_WORD: Final = 200
SHORTEST_LEASE: Final[Span] = 3 * SECOND
LONGEST_LEASE: Final[Span] = 10 * MINUTE
HEARTBEATS_PER_LEASE: Final = 3
_TOKEN: Final = "[0-9]{1,19}"  # noqa: S105 - a pattern
_A_TOKEN: Final = re.compile(_TOKEN)
Token = Annotated[str, described(pattern=f"^{_TOKEN}$")]
MAX_NUMBER: Final = 2**53
"""What the numbers of every language hold."""
Milliseconds = Annotated[int, between(0, MAX_NUMBER)]
Level = Literal["debug", "info", "warning", "error"]
TaskVerdict = Literal["succeeded", "failed", "rejected", "timed_out", "cancelled", "skipped", "postponed"]


class TaskOffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function that a worker has."""

    name: WrittenTask


class NewWorker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker that introduces itself."""

    name: Annotated[str, line(_MAX_WORD)]
    tasks: Annotated[list[TaskOffer], at_most(MAX_TASKS, minItems=1)]
    app: Annotated[str, line(_MAX_WORD)] | None = None
    revision: Annotated[str, line(_MAX_WORD)] | None = None
    sdk: Annotated[str, line(_MAX_WORD)] | None = None
    protocol: Annotated[int, between(1, PROTOCOL)] = PROTOCOL
    queues: Annotated[tuple[WrittenName, ...], at_most(MAX_QUEUES, minItems=1)] = ("default",)
    capacity: Annotated[int, between(1, MAX_CAPACITY)] = 1
    lease: SpanText = "30s"


class Registered(msgspec.Struct, frozen=True):
    """What a worker is called, and how often it is to be heard."""

    worker: WorkerText
    lease_ms: int
    heartbeat_ms: int
    wait_max_ms: int
    batch_max: int
    now: str


class LogLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a task said. Lines of an attempt are numbered from 1; one that is sent again has its number. Long
    messages are cut, and so are lines past the thousandth."""

    seq: Annotated[int, between(1, MAX_NUMBER)]
    at: Annotated[str, described(format="date-time")]
    message: str
    level: Level = "info"
    fields: dict[str, Any] | None = None


class TaskError(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What went wrong: the kind of error, a message, and where it came from. Each is cut if it is long."""

    kind: str
    message: str = ""
    trace: str | None = None


class TaskSettlement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How an attempt ended. `reason` goes with `skipped` and `postponed`, `error` with the other failures,
    `stray` with an attempt that was given up and runs on without its claim. An id or a token that names no
    claim is refused by itself: it keeps no other settlement from being written."""

    id: str
    token: str
    verdict: TaskVerdict
    result: Any = None
    error: TaskError | None = None
    reason: str | None = None
    retry_after_ms: Milliseconds | None = None
    logs: Annotated[list[LogLine], at_most(MAX_LOG_LINES)] = []
    stray: bool = False


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker asks for work, and says what became of what it had. `want` may exceed what is free of its
    capacity by what it can hold ready. A call without an answer is repeated with its `seq`."""

    seq: Annotated[int, between(1, MAX_NUMBER)]
    want: Annotated[int, between(0, BATCH_MAX)]
    wait_ms: Annotated[int, between(0, WAIT_MAX_MS)] = 0
    settle: Annotated[list[TaskSettlement], at_most(BATCH_MAX)] = []


class TaskClaim(msgspec.Struct, frozen=True):
    """An attempt to make, at once."""

    id: ExecutionText
    token: Token
    task: str
    payload: Any
    attempt: int
    fire_at: str
    started_at: str
    timeout_ms: int
    deadline_at: str
    idempotency_key: str
    traceparent: str
    queue: str


class Settled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a settlement that was not simply written; `id` as the worker wrote it."""

    id: str
    status: Literal["ok", "lost", "refused"]
    problem: str | None = None


class Stop(msgspec.Struct, frozen=True):
    """An attempt that should end: it is to be stopped and settled as cancelled."""

    id: ExecutionText
    reason: str


class Given(msgspec.Struct, frozen=True):
    """The answer to an `Ask`. `settled` names those settlements that were not simply written."""

    claims: list[TaskClaim]
    settled: list[Settled]
    stop: list[Stop]
    drain: bool
    now: str


class Settlements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of attempts, apart from a claim."""

    settle: Annotated[list[TaskSettlement], at_most(BATCH_MAX)]


class SettledAll(msgspec.Struct, frozen=True):
    """Those of the settlements that were not simply written."""

    settled: list[Settled]


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far an attempt is: a share from 0 to 1, beyond which it counts as 0 or 1, and a note, cut if it is
    long."""

    share: float | None = None
    note: str | None = None


class HeldClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A claim that a worker holds. What names none is answered as lost."""

    id: str
    token: str
    progress: Progress | None = None
    logs: Annotated[list[LogLine], at_most(MAX_LOG_LINES)] = []


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker is there, and holds these."""

    held: Annotated[list[HeldClaim], at_most(MAX_HELD)]
    running: Annotated[int, between(0, MAX_CAPACITY)] | None = None


class Heard(msgspec.Struct, frozen=True):
    """The answer to a heartbeat. What is lost is another's; until `deadline_at` the rest is the worker's."""

    lost: list[str]
    stop: list[Stop]
    deadline_at: str
    drain: bool
    now: str


class ClaimName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim by its name. What names none is passed over."""

    id: str
    token: str


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Claims of which nothing was run."""

    claims: Annotated[list[ClaimName], at_most(BATCH_MAX)]


class Released(msgspec.Struct, frozen=True):
    """How many of them went back."""

    released: int


def check_worker(new: NewWorker) -> Span:
    """Refuse a worker that makes no sense. Returns its lease."""
    _check_word(new.name, "name")
    for field in ("app", "revision", "sdk"):
        if (word := getattr(new, field)) is not None:
            _check_word(word, field)
    if new.protocol != PROTOCOL:
        raise Refused(f"this gateway speaks version {PROTOCOL} of the protocol", field="protocol")
    if not 1 <= len(new.tasks) <= MAX_TASKS:
        raise Refused(f"a worker has 1 to {MAX_TASKS} tasks", field="tasks")
    for task in new.tasks:
        check_task_name(task.name, "tasks.name")
    if not 1 <= len(new.queues) <= MAX_QUEUES:
        raise Refused(f"a worker serves 1 to {MAX_QUEUES} queues", field="queues")
    for queue in new.queues:
        check_name(queue, "queues")
    if not 1 <= new.capacity <= MAX_CAPACITY:
        raise Refused(f"capacity lies between 1 and {MAX_CAPACITY}", field="capacity")
    lease = parse_span(new.lease, "lease")
    if not SHORTEST_LEASE <= lease <= LONGEST_LEASE:
        shortest, longest = format_span(SHORTEST_LEASE), format_span(LONGEST_LEASE)
        raise Refused(f"a lease lies between {shortest} and {longest}", field="lease")
    return lease


def check_ask(ask: Ask) -> None:
    """Refuse numbers that make no sense."""
    _check_number(ask.seq, "seq", 1, MAX_NUMBER)
    _check_number(ask.want, "want", 0, BATCH_MAX)
    _check_number(ask.wait_ms, "wait_ms", 0, WAIT_MAX_MS)
    check_settlements(ask.settle)


def check_settlements(settle: Sequence[TaskSettlement]) -> None:
    """Refuse numbers that cannot be stored, and more than fits one call."""
    check_batch(len(settle), "settle")
    for one in settle:
        if one.retry_after_ms is not None:
            _check_number(one.retry_after_ms, "settle.retry_after_ms", 0, MAX_NUMBER)
        _check_lines(one.logs, "settle.logs")


def check_heartbeat(beat: Heartbeat) -> None:
    """The same for what a worker says it holds."""
    check_batch(len(beat.held), "held", MAX_HELD)
    if beat.running is not None:
        _check_number(beat.running, "running", 0, MAX_CAPACITY)
    for one in beat.held:
        _check_lines(one.logs, "held.logs")


def check_batch(number: int, field: str, most: int = BATCH_MAX) -> None:
    """Refuse more than fits one call."""
    if number > most:
        raise Refused(f"at most {most} at once", field=field)


def _check_lines(lines: Sequence[LogLine], field: str) -> None:
    check_batch(len(lines), field, MAX_LOG_LINES)
    for one in lines:
        _check_number(one.seq, f"{field}.seq", 1, MAX_NUMBER)
        parse_instant(one.at, f"{field}.at")


def _check_number(number: int, field: str, least: int, most: int) -> None:
    if not least <= number <= most:
        raise Refused(f"{field} lies between {least} and {most}", field=field)


def token_of(text: str) -> int | None:
    """The number of a token; None for what cannot be one."""
    if not _A_TOKEN.fullmatch(text):
        return None
    number = int(text)
    return number if number < 2**63 else None


def _check_word(word: str, field: str) -> None:
    if not 1 <= len(word) <= _MAX_WORD or not word.isprintable():
        raise Refused(f"{field} has 1 to {_MAX_WORD} printable characters", field=field)
