"""Operations: one action on many things. How much of it comes next, and when it has to stop. Pure.

An operation goes in steps: a few things, then their outcome, then more of them, then all the rest. A step
that fails holds the operation. So does the brake, at any time: when too many of the latest outcomes are
failures. The outcome of an action that fires executions is how these end; that of any other is whether it was
possible.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import ceil
from typing import Final

import msgspec

from tocsin.domain.instant import MILLISECOND, Span
from tocsin.domain.lifecycle import FINAL, LIVE, State

BATCH: Final = 100
"""The most that one transaction acts on."""
AT_A_LOOK: Final = 100_000
"""As many are gathered, or counted for a dry run, in one statement, well within its time limit."""
LARGEST_STEP: Final = 100_000
MOST_STEPS: Final = 10
MOST_WATCHED: Final = 1_000
"""How far back a brake can look."""
MOST_UNDER_WAY: Final = 5_000
MOST_ERRORS: Final = 20
OTHER_ERRORS: Final = "other errors"
_SHORTEST_TURN: Final[Span] = 250 * MILLISECOND
"""At a quick pace several are taken at once, so often."""


class Do(StrEnum):
    """What is done to each."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    CANCEL_QUEUED = "cancel_queued"
    DELETE = "delete"
    RUN = "run"
    RETRY = "retry"
    RERUN = "rerun"
    DISCARD = "discard"


class Of(StrEnum):
    """What it is done to."""

    JOBS = "jobs"
    EXECUTIONS = "executions"
    DEAD_LETTERS = "dead_letters"


POSSIBLE: Final[Mapping[Of, tuple[Do, ...]]] = {
    Of.JOBS: (Do.PAUSE, Do.RESUME, Do.CANCEL, Do.CANCEL_QUEUED, Do.DELETE, Do.RUN),
    Of.EXECUTIONS: (Do.CANCEL, Do.RETRY, Do.RERUN),
    Of.DEAD_LETTERS: (Do.RETRY, Do.RERUN, Do.DISCARD),
}
FIRING: Final = frozenset({Do.RUN, Do.RETRY, Do.RERUN})
"""Actions whose outcome is how an execution ends."""
_RETRIED: Final = (State.DEAD, State.EXPIRED, State.CANCELLED)
_STATES_OF_JOBS: Final[Mapping[Do, tuple[str, ...]]] = {
    Do.PAUSE: ("active",),
    Do.RESUME: ("paused",),
    Do.CANCEL: ("active", "paused"),
    Do.RUN: ("active", "paused", "completed"),
}


class StopAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The brake: hold when `share` of the last `of` outcomes are failures."""

    share: float
    of: int

    @property
    def failures(self) -> int:
        """How many failures are too many."""
        return max(1, ceil(self.share * self.of))


class Standing(msgspec.Struct, frozen=True):
    """How far an operation has come."""

    matched: int
    position: int = 0
    under_way: int = 0
    step: int = 0
    step_failed: int = 0
    recent: str = ""
    """The latest outcomes, the last one last: ``x`` is a failure."""


def why_not_job(do: Do, state: str) -> str | None:
    """Why an action is not possible for a job in this state, as far as that can be told beforehand. None if
    it is."""
    return None if state in _STATES_OF_JOBS.get(do, (state,)) else f"the job is {state}"


def why_not_execution(do: Do, state: str, job_state: str | None) -> str | None:
    """The same for an execution and the state of its job, which is None if the job is gone."""
    if do is Do.CANCEL:
        return None if state in LIVE else f"the execution is {state}"
    if do is Do.DISCARD:
        return None if state == State.DEAD else f"the execution is {state}"
    if job_state in (None, "cancelled"):
        return "the job is cancelled or deleted"
    able = state in (_RETRIED if do is Do.RETRY else FINAL)
    return None if able else f"the execution is {state}"


def end_of_step(steps: Sequence[int], step: int, matched: int) -> int:
    """The position at which a step ends; after the last of `steps` comes all the rest."""
    return min(matched, sum(steps[: step + 1])) if step < len(steps) else matched


def step_is_over(steps: Sequence[int], standing: Standing) -> bool:
    """Whether a step has had its outcome, and another follows."""
    end = end_of_step(steps, standing.step, standing.matched)
    return standing.position == end < standing.matched and not standing.under_way


def step_failed(steps: Sequence[int], standing: Standing, stop_at: StopAt | None) -> bool:
    """Whether the outcome of a step holds the operation: one failure does, or with a brake the share that it
    names."""
    size = end_of_step(steps, standing.step, standing.matched) - (
        end_of_step(steps, standing.step - 1, standing.matched) if standing.step else 0
    )
    too_many = 1 if stop_at is None else max(1, ceil(stop_at.share * size))
    return standing.step_failed >= too_many


def braked(recent: str, stop_at: StopAt | None) -> bool:
    """Whether too many of the latest outcomes are failures; those that have not come yet count as
    successes."""
    return stop_at is not None and recent[-stop_at.of :].count("x") >= stop_at.failures


def remembered(recent: str, failures: Iterable[bool], stop_at: StopAt | None) -> str:
    """The latest outcomes, with further ones added. Without a brake none are kept."""
    if stop_at is None:
        return ""
    return (recent + "".join("x" if failed else "." for failed in failures))[-stop_at.of :]


def next_take(
    standing: Standing, steps: Sequence[int], pace: Span, stop_at: StopAt | None, *, firing: bool
) -> int:
    """How many come next. An operation that fires executions runs ahead of their outcomes by no more than the
    brake looks back."""
    room = end_of_step(steps, standing.step, standing.matched) - standing.position
    if firing:
        room = min(room, (MOST_UNDER_WAY if stop_at is None else stop_at.of) - standing.under_way)
    paced = BATCH if pace == 0 else max(1, _SHORTEST_TURN // pace)
    return max(0, min(room, BATCH, paced))


def counted(
    errors: Mapping[str, tuple[int, str]], more: Iterable[tuple[str, str]]
) -> dict[str, tuple[int, str]]:
    """Errors with how often they came and the first thing that had each. Kinds beyond a limit are counted
    together."""
    kept = dict(errors)
    for error, thing in more:
        kind = error if error in kept or len(kept) < MOST_ERRORS else OTHER_ERRORS
        number, first = kept.get(kind, (0, thing))
        kept[kind] = (number + 1, first)
    return kept
