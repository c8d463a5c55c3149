"""Takes executions out of the queue, a little before they are due.

One look asks every lane for its next run time; lanes with something due within the claim-ahead window are
allotted shares of the free capacity, and one statement claims it all. What is due comes back started and runs
at once; the rest waits in the timetable. Between looks the claimer sleeps until the next known run time is
near; notices bring that forward, and an ordinary look happens every so often in case one was lost.

A herd takes longer to claim than the window is long. A look also sees whether a lane is crowded, and such a lane is
claimed from farther ahead, until few enough are left for the last moments.
"""

import secrets
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span, has_passed
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim, sort_out
from tocsin.queue.lanes import LaneView, allot
from tocsin.queue.postgres import PostgresQueue
from tocsin.queue.shares import TenantShares
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry
from tocsin.worker.runner import Runner
from tocsin.worker.settler import Settler
from tocsin.worker.timetable import Timetable
from tocsin.worker.unread import LeftToOthers

_LOOK_VALID: Final = 200 * MILLISECOND
_BACKLOG_BATCHES: Final = 4
_GATE_BATCHES: Final = 2
_CROWDED_SHARE: Final = 50
_CROWDED_PAUSE: Final = 10 * MILLISECOND
_BLOCKED: Final = 50 * MILLISECOND
_CROWD_BATCHES: Final = 5
_FAR: Final = 10
"""How many times the ordinary window crowded lanes are claimed ahead."""


class Claimer:
    """Fills the timetable and the runner."""

    name = "claimer"

    def __init__(
        self,
        queue: PostgresQueue,
        timetable: Timetable,
        runner: Runner,
        settler: Settler,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        ahead: float,
        batch: int,
        held_max: int,
        shares: TenantShares,
        queues: tuple[str, ...] = (),
    ) -> None:
        # What is created due later than this does not send a notice, and is seen by the next look in time.
        self.interval = ahead
        self._queue = queue
        self._timetable = timetable
        self._runner = runner
        self._settler = settler
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._ahead: Span = round(ahead * SECOND)
        self._batch = batch
        self._held_max = held_max
        self._queues = frozenset(queues)
        self._shares = shares
        self._left = LeftToOthers(settler, runner.expire, telemetry)
        self._views: list[LaneView] = []
        self._looked_at: Instant = 0
        self.blocked = False
        """Whether there was work but no room for it."""
        self.earlier: Callable[[], None] = lambda: None
        """Called when the timetable's next instant moved forward."""

    async def run_once(self, now: Instant) -> Report:
        """Look if the last look is old, then claim what the capacity allows."""
        if has_passed(_LOOK_VALID, self._looked_at, now) or not self._views:
            await self._look(now)
        ready = [view for view in self._views if view.next_run_at <= now + self._window(view, now)]
        room = self._room(now, len(ready), due=any(view.next_run_at <= now for view in ready))
        self.blocked = bool(ready) and room <= 0
        if self.blocked:
            return Report(again_at=now + _BLOCKED)  # or as soon as the runner has room again
        if not ready:
            return self._rest(now)
        allotments = allot(ready, room, self._shares.caps(ready, self._held(), now))
        if not allotments:
            return Report(again_at=now + _BLOCKED)  # every tenant that has work is at its limit
        farther = {
            view.lane: now + window for view in ready if (window := self._window(view, now)) != self._ahead
        }
        claims = await self._queue.claim(allotments, now + self._ahead, secrets.randbits(63), now, farther)
        self._shares.spend(claims)
        await self._failpoints.reach("claimer.claimed")
        self._telemetry.claimed.inc(len(claims))
        self._dispatch(claims, now)
        if len(claims) < room:
            self._looked_at = 0  # the lanes are not what they were
        if claims and self._gate_crowded(now):
            return Report(done=len(claims), again_at=now + _CROWDED_PAUSE)
        return Report(done=len(claims), again_at=AGAIN_NOW if claims else self._rest(now).again_at)

    def forget_look(self) -> None:
        """Something new is in the queue: the next run looks again."""
        self._looked_at = 0

    async def _look(self, now: Instant) -> None:
        self._looked_at = now  # from before it began: what becomes new meanwhile it may not have seen
        try:
            views = await self._queue.peek(now, _CROWD_BATCHES * self._batch, now + _FAR * self._ahead)
        except BaseException:
            self._looked_at = 0
            raise
        self._views = [view for view in views if self._serves(view)]

    def _window(self, view: LaneView, now: Instant) -> Span:
        """How far ahead a lane is claimed. Under a tenant's limit not far: what is held counts as in flight. And not at all
        where others may be able to read what we are not."""
        if self._left.shy_of(view.lane, now):
            return 0
        limited = view.in_flight is not None or view.fires_per_second is not None
        return _FAR * self._ahead if view.crowded and not limited else self._ahead

    def _held(self) -> Iterator[Claim]:
        """Everything this worker has claimed and not yet settled."""
        return chain(self._timetable, self._runner.claims(), self._settler.claims())

    def _serves(self, view: LaneView) -> bool:
        return not self._queues or view.lane.queue in self._queues

    def _room(self, now: Instant, lanes: int, *, due: bool) -> int:
        """How many executions may be taken now. What is due needs a free call, what is ahead only memory."""
        if self._settler.backlog > _BACKLOG_BATCHES * self._batch:
            return 0
        held = self._held_max - len(self._timetable)
        if not due:
            return min(self._batch, held)
        # Beside a crowd at the gate a little of every lane: there may be some that need not pass it.
        batch = max(self._batch // _CROWDED_SHARE, lanes) if self._gate_crowded(now) else self._batch
        return min(batch, held, self._runner.free - self._overdue())

    def _gate_crowded(self, now: Instant) -> bool:
        """Whether so much waits to pass the gate that more of it would only wait longer."""
        enough = _GATE_BATCHES * self._batch
        return self._timetable.gated >= enough and self._timetable.late_at_gate(now) >= enough

    def _overdue(self) -> int:
        """Held claims that already wait for a free call come first."""
        return len(self._timetable) if self._timetable and self._runner.free <= 0 else 0

    def _dispatch(self, claims: list[Claim], now: Instant) -> None:
        claims, unreadable = sort_out(claims)
        if unreadable:
            self._left.put_back(unreadable, now)
        started = [claim for claim in claims if claim.started_at is not None]
        if started:
            self._runner.run(started)
        if len(started) < len(claims) and self._timetable.add([c for c in claims if c.started_at is None]):
            self.earlier()
        self._telemetry.held.set(len(self._timetable))

    def _rest(self, now: Instant) -> Report:
        """Sleep until the next known run time is near, but never longer than the interval."""
        latest = now + round(self.interval * SECOND)
        ahead = [(view, min(self._ahead, self._window(view, now))) for view in self._views]
        coming = [view.next_run_at - window for view, window in ahead if view.next_run_at > now + window]
        return Report(again_at=min([latest, *coming]))
