"""The state machine of an execution, in its one home.

Everything that changes an execution is one of these events; everything else about states (the guards in SQL,
the CHECK constraints, the walk of the property test, the table in docs/concepts.md) is tested equal to this
table. Live states are not stored: a live row is queued without a claim token, claimed with one, and running
once it also has a start time. A final state is stored in history and left only by `REVIVE`.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class State(StrEnum):
    """Where an execution stands."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class Event(StrEnum):
    """What can happen to it, and who does it."""

    CLAIM = "claim"  # a worker takes it, up to a few seconds ahead
    START = "start"  # the fire-or-skip decision, at run_at or a moment before; it counts as run_at
    SUCCEED = "succeed"  # the attempt's outcome was good
    RETRY = "retry"  # the attempt failed and the policy allows another
    DIE = "die"  # the attempt failed for good
    RELEASE = "release"  # a worker gives it back without having called
    RECLAIM = "reclaim"  # the claim's deadline passed; another worker may try
    CANCEL = "cancel"  # a person or policy called it off before its start
    STOP = "stop"  # a running attempt honoured a cancel request
    SKIP = "skip"  # a policy decided that it does not run, or a task that there was nothing to do
    EXPIRE = "expire"  # it was not started by its latest start
    REVIVE = "revive"  # a person retries a final one; identity and attempts continue


class CancelResult(StrEnum):
    """What a cancellation promises.

    `cancelled`: the execution was never called and never will be. `cancel_requested`: it may have been. It
    was asked to stop, will not be tried again, or ended meanwhile.
    """

    CANCELLED = "cancelled"
    REQUESTED = "cancel_requested"


LIVE: Final = frozenset({State.QUEUED, State.CLAIMED, State.RUNNING})
FINAL: Final = frozenset(State) - LIVE

TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = MappingProxyType(
    {
        (State.QUEUED, Event.CLAIM): State.CLAIMED,
        (State.QUEUED, Event.CANCEL): State.CANCELLED,
        (State.QUEUED, Event.SKIP): State.SKIPPED,
        (State.QUEUED, Event.EXPIRE): State.EXPIRED,
        (State.CLAIMED, Event.START): State.RUNNING,
        (State.CLAIMED, Event.RELEASE): State.QUEUED,
        (State.CLAIMED, Event.RECLAIM): State.QUEUED,
        (State.CLAIMED, Event.CANCEL): State.CANCELLED,
        (State.CLAIMED, Event.SKIP): State.SKIPPED,
        (State.CLAIMED, Event.EXPIRE): State.EXPIRED,
        (State.RUNNING, Event.SUCCEED): State.SUCCEEDED,
        (State.RUNNING, Event.RETRY): State.QUEUED,
        (State.RUNNING, Event.DIE): State.DEAD,
        (State.RUNNING, Event.RELEASE): State.QUEUED,
        (State.RUNNING, Event.RECLAIM): State.QUEUED,
        (State.RUNNING, Event.STOP): State.CANCELLED,
        (State.RUNNING, Event.SKIP): State.SKIPPED,
        (State.DEAD, Event.REVIVE): State.QUEUED,
        (State.EXPIRED, Event.REVIVE): State.QUEUED,
        (State.CANCELLED, Event.REVIVE): State.QUEUED,
    }
)


def after(state: State, event: Event) -> State | None:
    """The state that follows, or None where the event is not legal."""
    return TRANSITIONS.get((state, event))


def live_state(*, claimed: bool, started: bool) -> State:
    """The state of a live row, from the two facts that are stored."""
    if not claimed:
        return State.QUEUED
    return State.RUNNING if started else State.CLAIMED
