"""How a task ends other than by returning: exceptions to raise, and exceptions that end it.

::

    TaskEnd                    raised by a task, on purpose
    ├── RetryAfter             failed; another attempt after a while of its own choice
    ├── Postpone               as if it had not been tried: no attempt is counted
    ├── Rejected               dead at once
    └── Skip                   there was nothing to do
    Stopped                    raised in a task by `current().check()`, or thrown into it
    ├── Cancelled              a user or a policy asked for that
    ├── TimedOut               its time is over
    └── ClaimLost              another worker has it by now: whatever this one returns does not count
"""

import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tocsin.domain.instant import MILLISECOND, parse_span
from tocsin.domain.protocol import MAX_MESSAGE, MAX_RESULT, MAX_TRACE, TaskClaim, TaskError, TaskSettlement
from tocsin.domain.storable import storable_text
from tocsin.sdk.signature import PayloadError, to_plain

_KIND: Final = 200
_OURS: Final = str(Path(__file__).parent) + os.sep


class TaskEnd(Exception):
    """A task ends in a way of its own."""


class RetryAfter(TaskEnd):
    """Failed, and worth another attempt after `wait`: text such as ``30s``, or seconds."""

    def __init__(self, wait: str | float, reason: str = "") -> None:
        super().__init__(reason or f"asked to be tried again after {wait}")
        self.wait_ms = parse_span(wait, "wait") // MILLISECOND


class Postpone(TaskEnd):
    """Not now: it is tried again after `wait`, and this attempt does not count."""

    def __init__(self, wait: str | float, reason: str = "") -> None:
        super().__init__(reason)
        self.wait_ms = parse_span(wait, "wait") // MILLISECOND


class Rejected(TaskEnd):
    """Another attempt cannot mend it: dead at once."""


class Skip(TaskEnd):
    """There was nothing to do."""


class Stopped(Exception):
    """The attempt should end now."""


class Cancelled(Stopped):
    """Its cancellation was asked for."""


class TimedOut(Stopped):
    """Its time is over."""


class ClaimLost(Stopped):
    """Its claim passed to another worker."""


class ChildDied(Exception):
    """The process that ran a task is gone."""


class ResultTooLarge(Exception):
    """What a task returned is more than is kept."""


def succeeded(claim: TaskClaim, value: Any) -> TaskSettlement:
    """The settlement of a task that returned. A result that cannot be kept is rejected: to run it again would
    not help."""
    if value is None:
        return TaskSettlement(claim.id, claim.token, "succeeded")
    try:
        return TaskSettlement(claim.id, claim.token, "succeeded", kept_result(value))
    except (Rejected, ResultTooLarge) as error:
        return _settlement(claim, "rejected", error)


def kept_result(value: Any) -> Any:
    """What a task returned, as it is kept. Raises what cannot be kept."""
    try:
        result = to_plain(value)
        size = len(msgspec.json.encode(result))
    except (TypeError, ValueError, RecursionError, NotImplementedError, msgspec.MsgspecError) as error:
        raise Rejected(f"its result is no JSON: {error}") from None
    if size > MAX_RESULT:
        raise ResultTooLarge(
            f"its result has {size:,} bytes, more than the {MAX_RESULT:,} that are kept; keep it elsewhere and return where"
        )
    return result


def failed(
    claim: TaskClaim,
    error: BaseException,
    never: Sequence[type[BaseException]],
    on: Sequence[type[BaseException]] = (),
) -> TaskSettlement:
    """The settlement of a task that raised. `on`, if there are any, are the only exceptions worth another
    attempt; `never` are not worth one."""
    match error:
        case Skip():
            return TaskSettlement(claim.id, claim.token, "skipped", reason=_words(error) or None)
        case Postpone():
            return TaskSettlement(
                claim.id, claim.token, "postponed", reason=_words(error) or None, retry_after_ms=error.wait_ms
            )
        case RetryAfter():
            told = _settlement(claim, "failed", error)
            return msgspec.structs.replace(told, retry_after_ms=error.wait_ms)
        case Cancelled():
            return _settlement(claim, "cancelled", error)
        case TimedOut():
            return _settlement(claim, "timed_out", error)
        case Rejected():
            return _settlement(claim, "rejected", error)
        case PayloadError() | ChildDied():  # no fault of the function's, so its rules do not apply
            return _settlement(claim, "failed", error)
    final = isinstance(error, tuple(never)) or (bool(on) and not isinstance(error, tuple(on)))
    return _settlement(claim, "rejected" if final else "failed", error)


def _settlement(claim: TaskClaim, verdict: Any, error: BaseException) -> TaskSettlement:
    return TaskSettlement(claim.id, claim.token, verdict, error=error_of(error))


def error_of(error: BaseException) -> TaskError:
    """An exception as it is kept: the last lines of its trace are the telling ones. It begins where our code
    ends; what raised within ours says enough in words."""
    frames = error.__traceback__
    while frames is not None and is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    trace = storable_text("".join(traceback.format_exception(type(error), error, frames)))
    return TaskError(type(error).__name__[:_KIND], _words(error), trace[-MAX_TRACE:])


def is_ours(file: str) -> bool:
    """Whether a file is one of this package, which need not be read to understand a task."""
    return file.startswith(_OURS)


def _words(error: BaseException) -> str:
    return storable_text(str(error)[:MAX_MESSAGE])
