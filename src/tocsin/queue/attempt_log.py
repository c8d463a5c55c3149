"""One line in the log per finished attempt: `attempt.finished`.

A search for a job's id finds its story. Lines have ids and numbers alone: nothing that a user wrote, nothing
that a target said. Which attempts are told is a setting; where none are, nothing is computed and a drain pays
nothing. Of successes a share can be told: the same executions on every node and at every attempt, so that a
story is there from its beginning to its end, or not at all.

Failures are rare until everything fails. A process tells a thousand of them a second; the next line says how
many were left out.
"""

from collections.abc import Sequence
from typing import Any, Final

import structlog

from tocsin.domain.ids import execution_text, job_text
from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.domain.lifecycle import State
from tocsin.domain.outcome import Verdict
from tocsin.queue.claims import Claim, Overdue

_MOST_FAILED_PER_SECOND: Final = 1000
_PARTS: Final = 1 << 20
_log = structlog.get_logger()


class AttemptLog:
    """What one process tells of attempts. `node` is bound to every line of the process."""

    def __init__(self, *, successes: bool, share: float = 1.0) -> None:
        self.successes = successes
        """Whether attempts that succeeded are told, too."""
        self._told_parts = round(share * _PARTS)
        self._second: Instant = 0
        self._told = 0
        self._unsaid = 0

    def succeeded(self, claims: Sequence[Claim], finished_at: Instant) -> None:
        """A batch of attempts that succeeded."""
        for claim in claims:
            self.finished(claim, State.SUCCEEDED, Verdict.SUCCEEDED, finished_at)

    def finished(self, claim: Claim, state: State | str, outcome: str, finished_at: Instant) -> None:
        """An attempt is over, and its execution is in a state by that: `queued` if it is tried again."""
        if state == State.SUCCEEDED:
            if not self.successes or not self._in_share(claim):
                return
        elif not self._room(finished_at):
            return
        began = claim.fired_at or claim.started_at or finished_at
        due = claim.due_at if claim.attempt == 1 else claim.run_at
        self._tell(claim, state, outcome, lag_ms=_ms(began - due), duration_ms=_ms(finished_at - began))

    def lost(self, overdue: Overdue, state: State | str, now: Instant) -> None:
        """The attempt of a worker that vanished. How long it ran is unknown."""
        if self._room(now):
            self._tell(overdue, state, Verdict.LOST, of_node=overdue.node_id)

    def _tell(self, claim: Claim | Overdue, state: State | str, outcome: str, **numbers: Any) -> None:
        if self._unsaid and state != State.SUCCEEDED:
            numbers["unsaid"], self._unsaid = self._unsaid, 0
        tell = _log.warning if state == State.DEAD else _log.info
        tell(
            "attempt.finished",
            job=job_text(claim.job_id),
            execution=execution_text(claim.key),
            tenant=claim.tenant_id,
            attempt=claim.attempt,
            state=str(state),
            outcome=str(outcome),
            **numbers,
        )

    def _in_share(self, claim: Claim) -> bool:
        mixed = (claim.job_id.int ^ claim.fire_at) * 0x9E3779B97F4A7C15
        return (mixed >> 32) % _PARTS < self._told_parts

    def _room(self, now: Instant) -> bool:
        second = now - now % SECOND
        if second != self._second:
            self._second, self._told = second, 0
        if self._told >= _MOST_FAILED_PER_SECOND:
            self._unsaid += 1
            return False
        self._told += 1
        return True


def attempt_log(which: str, share: float) -> AttemptLog | None:
    """As the settings say: `off`, `failed` or `all`."""
    return None if which == "off" else AttemptLog(successes=which == "all", share=share)


def _ms(span: int) -> float:
    return round(max(0, span) / MILLISECOND, 3)
