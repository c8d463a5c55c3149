"""What follows from an attempt's outcome, decided without a database: the execution is over, or it is tried
again.

A worker that ran the attempt, a gateway that heard of it from a remote worker, and the reclaimer that found
it lost all ask here, so the same outcome means the same wherever it was observed.
"""

import msgspec

from tocsin.domain.instant import Instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Attempt, Outcome, TryAgain, decide, fingerprint, judged
from tocsin.domain.policy import Retry
from tocsin.domain.storable import storable_json, storable_text

STOPPED: str = "asked to stop while it ran"


class Tried(msgspec.Struct, frozen=True, gc=False):
    """An attempt that was made: its number, how many the retry policy counts so far, when it ran, on which
    node, and for which remote worker."""

    number: int
    counted: int
    started_at: Instant | None
    finished_at: Instant
    node_id: int | None
    worker_id: int | None = None
    due_at: Instant | None = None
    """From when `retry.max_age` counts; None in a round that a person began."""


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The execution is over: what history says of it. `outcome` is JSON text."""

    state: State
    outcome: str
    reason: str | None
    fingerprint: str | None


class Retried(msgspec.Struct, frozen=True, gc=False):
    """Another attempt follows. `record` is the JSON text of this one; `if_stopped` is how the execution ends
    instead if it was asked to stop meanwhile."""

    run_at: Instant
    record: str
    if_stopped: Ended


def settle(tried: Tried, outcome: Outcome, retry: Retry, chance: float) -> Ended | Retried:
    """Decide about an attempt under a job's retry policy. `chance`, in [0, 1), spreads retries."""
    outcome = judged(outcome, retry)
    decision = decide(outcome, retry, tried.counted, tried.finished_at, chance, tried.due_at)
    if isinstance(decision, TryAgain):
        return Retried(decision.run_at, record_of(tried, outcome), stopped(outcome))
    error = None
    if outcome.error is not None and decision.state is not State.SUCCEEDED:
        error = storable_text(outcome.error)
    dead = decision.state is State.DEAD
    return Ended(decision.state, text_of(outcome), error, fingerprint(error) if error and dead else None)


def stopped(outcome: Outcome) -> Ended:
    """How an execution ends that is not tried again because it was asked to stop."""
    return Ended(State.CANCELLED, text_of(outcome), STOPPED, None)


def record_of(tried: Tried, outcome: Outcome) -> str:
    """The attempt as it is kept with its execution."""
    attempt = Attempt(
        tried.number,
        outcome.verdict,
        tried.started_at,
        max(tried.finished_at, tried.started_at or tried.finished_at),
        tried.node_id,
        outcome.error,
        outcome.detail,
        tried.worker_id,
    )
    return storable_json(attempt)


def text_of(outcome: Outcome) -> str:
    """An outcome as it is stored."""
    return storable_json(outcome)
