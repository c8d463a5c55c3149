"""What an attempt answered, and what becomes of the execution."""

import hashlib
import re
from enum import StrEnum
from typing import Any, Final

import msgspec

from tocsin.domain.instant import MINUTE, SECOND, Instant, Span
from tocsin.domain.lifecycle import State
from tocsin.domain.policy import NETWORK, TIMEOUT, Retry, backoff, is_retried, is_too_old, may_retry
from tocsin.domain.waits import Reason

_VARYING: Final = re.compile(r"(answered \d{3}\b|exited with \d{1,3}\b)|0x[0-9a-f]+|[0-9a-f]{8,}|\d+")
"""What errors of one kind differ in. The status of an answer and the exit
code of a script are no such numbers, and are kept."""


class Verdict(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"  # failed in a way that another attempt cannot mend
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # a task found nothing to do
    LOST = "lost"  # the worker vanished; how far it came is unknown


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of one attempt. `detail` is what the target kind has to tell: status, headers, body."""

    verdict: Verdict
    error: str | None = None
    detail: dict[str, Any] | None = None
    retry_after: int | None = None
    """Microseconds that the target asked us to wait."""
    failure: str | None = None
    """What `retry.on` may name: ``network``, ``timeout``, a status. None: the verdict alone decides."""
    result: Any = None
    """What a task returned."""
    gone: bool = False
    """Whether the target said that it is not there any more and will not be again."""


_SHORTEST_PAUSE: Final[Span] = SECOND
_LONGEST_PAUSE: Final[Span] = MINUTE
SUCCEEDED: Final = Outcome(Verdict.SUCCEEDED)
_FAILURES: Final = frozenset({NETWORK, TIMEOUT})


class Postponed(msgspec.Struct, frozen=True):
    """No attempt was made, since it could not have succeeded. Another start follows after `wait`."""

    wait: Span
    waits_for: Reason


def pause_for_newer(due_at: Instant, now: Instant) -> Span:
    """How long an execution is put off that others may be able to read: for as long as it has been due
    already, within bounds. So it does not come back at once, and ever more seldom."""
    return min(max(now - due_at, _SHORTEST_PAUSE), _LONGEST_PAUSE)


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One try at an execution, as kept with it."""

    number: int
    verdict: Verdict
    started_at: Instant | None = None
    finished_at: Instant | None = None
    node_id: int | None = None
    error: str | None = None
    detail: dict[str, Any] | None = None
    worker_id: int | None = None
    """The remote worker that made it, if one did."""


class Finished(msgspec.Struct, frozen=True):
    """The execution is over."""

    state: State


class TryAgain(msgspec.Struct, frozen=True):
    """Another attempt follows at `run_at`."""

    run_at: Instant


def judged(outcome: Outcome, retry: Retry) -> Outcome:
    """The outcome under a job's policy: `retry.on` says which failures are final and which are not."""
    if outcome.failure is None or outcome.verdict not in (Verdict.FAILED, Verdict.REJECTED):
        return outcome
    verdict = Verdict.FAILED if is_retried(retry, outcome.failure) else Verdict.REJECTED
    return outcome if verdict is outcome.verdict else msgspec.structs.replace(outcome, verdict=verdict)


def decide(
    outcome: Outcome,
    retry: Retry,
    attempts_made: int,
    now: Instant,
    chance: float,
    due_at: Instant | None = None,
) -> Finished | TryAgain:
    """What follows from a judged outcome. `attempts_made` counts what the retry policy counts. Without a
    `due_at` no retry is too old."""
    match outcome.verdict:
        case Verdict.SUCCEEDED:
            return Finished(State.SUCCEEDED)
        case Verdict.CANCELLED:
            return Finished(State.CANCELLED)
        case Verdict.SKIPPED:
            return Finished(State.SKIPPED)
        case Verdict.REJECTED:
            return Finished(State.DEAD)
        case Verdict.TIMED_OUT if not is_retried(retry, TIMEOUT):
            return Finished(State.DEAD)
        case Verdict.FAILED | Verdict.TIMED_OUT | Verdict.LOST:
            if not may_retry(retry, attempts_made):
                return Finished(State.DEAD)
            at = now + max(backoff(retry, attempts_made, chance), outcome.retry_after or 0)
            if due_at is not None and is_too_old(retry, due_at, at):
                return Finished(State.DEAD)
            return TryAgain(at)


def class_of(outcome: Outcome) -> str:
    """One of few words for how an attempt went, to count by: a good one's verdict, else the class of the
    status that was answered, else what failed, else the verdict."""
    if outcome.verdict is Verdict.SUCCEEDED:
        return outcome.verdict
    status = outcome.detail and outcome.detail.get("status")
    if isinstance(status, int) and 100 <= status < 600:
        return f"{status // 100}xx"
    return outcome.failure if outcome.failure in _FAILURES else outcome.verdict


def fingerprint(error: str) -> str:
    """A short name shared by errors that differ only in numbers and addresses, to group dead letters by.

    A status tells kinds of errors apart: a 404 and a 503 are two groups.
    """
    kind = _VARYING.sub(lambda found: found[1] or "#", error.lower())
    return hashlib.blake2b(kind.encode(), digest_size=6).hexdigest()
