"""Executions that this worker has claimed and cannot read: they go back without an attempt, for a newer
worker.

One that was claimed ahead goes back unchanged. A due one is put off, each time for as long as it has been due
already, so that it does not come back at once and is not forgotten either. In a lane where this happened the
worker claims nothing ahead of time for a minute: workers that can read it do, and so they have it before this
one sees it again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tocsin.domain.errors import Unreadable
from tocsin.domain.instant import MINUTE, Instant, Span
from tocsin.domain.outcome import Outcome, Verdict, pause_for_newer
from tocsin.domain.waits import Reason
from tocsin.queue.claims import Claim
from tocsin.queue.lanes import Lane
from tocsin.store.unread import Unread
from tocsin.telemetry import Telemetry
from tocsin.worker.settler import Settlement, Settler

_SHY_FOR: Final[Span] = MINUTE
_MOST_LANES: Final = 1_000
"""Beyond this many lanes, those whose minute is over are forgotten: a lane that is gone is never asked for
again."""
_NOT_CALLED: Final = Outcome(Verdict.CANCELLED, error="cancelled before any worker could read it")


class LeftToOthers:
    """Puts back what this worker cannot read."""

    def __init__(self, settler: Settler, expire: Callable[[Claim], None], telemetry: Telemetry) -> None:
        self._settler = settler
        self._expire = expire
        self._unread = Unread("execution", telemetry)
        self._shy_until: dict[Lane, Instant] = {}

    def put_back(self, unreadable: Sequence[tuple[Claim, Unreadable]], now: Instant) -> None:
        """By way of the settler, which repeats it until the database has answered."""
        for claim, error in unreadable:
            if claim.start_by is not None and claim.start_by <= now:
                self._expire(claim)
                continue
            self._unread.note(claim.job_id, claim.version or 0, error.detail, now)
            self._shy_until[claim.lane] = now + _SHY_FOR
            if len(self._shy_until) > _MOST_LANES:
                self._shy_until = {lane: until for lane, until in self._shy_until.items() if until > now}
            self._settler.put(
                Settlement(
                    claim, _NOT_CALLED, now, postponed_to=_next_try(claim, now), waits_for=Reason.NEWER
                )
            )

    def shy_of(self, lane: Lane, now: Instant) -> bool:
        """Whether to leave what is not due yet in this lane to others."""
        until = self._shy_until.get(lane)
        if until is None or until > now:
            return until is not None
        del self._shy_until[lane]
        return False


def _next_try(claim: Claim, now: Instant) -> Instant:
    if claim.run_at > now:
        return claim.run_at
    return now + pause_for_newer(claim.due_at, now)
