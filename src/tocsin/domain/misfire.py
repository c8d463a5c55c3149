"""Which missed fire times still run.

A recurring fire that has not started within the grace of its instant was missed: nothing could plan or run
it, its job, queue or tenant was paused, or everything ahead of it took too long. One rule for all of them,
wherever they are found: fire times that were never planned by the planner, executions that were planned by
the worker that would start them. Of all that a job has missed the latest few run, as many as its policy
keeps; what is older than the lookback never does.

Pure, and of one job at a time. It does not know why a fire was missed.
"""

from collections.abc import Sequence

import msgspec

from tocsin.domain.instant import Instant, Span, parse_span
from tocsin.domain.policy import Misfire, MisfirePolicy


class Missed(msgspec.Struct, frozen=True):
    """A fire time that was missed, or an execution that runs late and has not had its chance yet
    (`pending`)."""

    at: Instant
    due_at: Instant
    pending: bool = False
    """It is kept already and waits for its pace. The lookback was asked then; but later ones may still push
    it out."""


class Late(msgspec.Struct, frozen=True):
    """A planned execution that was missed and runs after all, in the catch-up lane, no sooner than in
    `wait`."""

    at: Instant
    wait: Span = 0


class Dropped(msgspec.Struct, frozen=True):
    """A planned execution that was missed and does not run."""

    at: Instant
    reason: str


def still_run(missed: Sequence[Missed], misfire: Misfire, now: Instant, left: int | None) -> list[Instant]:
    """The fire times, of those missed in order, that run after all. `left` is how many more the job may
    fire."""
    oldest = oldest_that_runs(misfire, now)
    able = [one.at for one in missed if one.pending or one.due_at >= oldest]
    keep = misfire.kept if left is None else min(misfire.kept, left)
    return able[-keep:] if keep else []


def why_not(missed: Missed, misfire: Misfire, now: Instant) -> str:
    """The reason for which a missed fire time does not run."""
    if not missed.pending and missed.due_at < oldest_that_runs(misfire, now):
        return "misfire_too_old"
    match misfire.policy:
        case MisfirePolicy.SKIP:
            return "misfire_skipped"
        case MisfirePolicy.FIRE_ONCE:
            return "misfire_superseded"
        case MisfirePolicy.FIRE_ALL:
            return "misfire_over_max"


def oldest_that_runs(misfire: Misfire, now: Instant) -> Instant:
    """Fires that were due before this never run."""
    return now - parse_span(misfire.lookback, "misfire.lookback")


def judge(
    planned: Sequence[Missed], kept: Sequence[Instant], misfire: Misfire, now: Instant
) -> tuple[list[Late], list[Dropped]]:
    """What becomes of planned executions when `kept` are the fire times that run."""
    pace, chosen = parse_span(misfire.pace, "misfire.pace"), {at: place for place, at in enumerate(kept)}
    late = [Late(one.at, chosen[one.at] * pace) for one in planned if one.at in chosen and not one.pending]
    dropped = [Dropped(one.at, why_not(one, misfire, now)) for one in planned if one.at not in chosen]
    return late, dropped


def decide(
    planned: Sequence[Missed], misfire: Misfire, now: Instant, *, more: bool = False
) -> tuple[list[Late], list[Dropped]]:
    """What becomes of the planned executions that a job has missed, earliest first.

    With `more` there are later ones than these: what they may push out stays as it is for now.
    """
    late, dropped = judge(planned, still_run(planned, misfire, now, None), misfire, now)
    return ([], dropped) if more else (late, dropped)
