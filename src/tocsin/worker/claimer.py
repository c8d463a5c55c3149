"""Takes executions out of the queue, a little before they are due.

One look asks every lane for its next run time. Lanes with due executions are allotted places (`Places`).
Lanes with executions due within the claim-ahead window are allotted room in the timetable. One statement
claims both. Due executions come back started and run at once; the others wait in the timetable. While due
executions wait for places, nothing is claimed ahead: another worker may have places free. Between looks the
claimer sleeps until the next known run time is near. Notices wake it earlier, and it looks every few seconds
in case a notice was lost.

A large crowd takes longer to claim than the window is long. A look shows which lanes are crowded, and the
claimer claims from those farther ahead until the rest fits into the window.
"""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from tocsin.domain.errors import Unavailable
from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span, has_passed
from tocsin.failpoints import Failpoints
from tocsin.queue.allotment import NO_DEFICITS, Allotment, allot
from tocsin.queue.claims import Claim, sort_out, without
from tocsin.queue.lanes import Lane, LaneView
from tocsin.queue.queue import Queue
from tocsin.queue.tenant_caps import TenantCaps
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry
from tocsin.worker.lateness import Lateness
from tocsin.worker.misfires import Misfires
from tocsin.worker.places import Places
from tocsin.worker.runner import Runner
from tocsin.worker.settler import Settler
from tocsin.worker.timetable import Timetable
from tocsin.worker.unanswered import UnansweredClaims
from tocsin.worker.unread import LeftToOthers

_LOOK_VALID: Final = 200 * MILLISECOND
_BACKLOG_BATCHES: Final = 4
_GATE_BATCHES: Final = 2
_CROWDED_SHARE: Final = 50
_CROWDED_PAUSE: Final = 10 * MILLISECOND
_BLOCKED: Final = 50 * MILLISECOND
_CROWD_BATCHES: Final = 5
_COUNTED_BY_A_LOOK: Final = 100_000
_MANY_LANES: Final = 1000
_APART_PER_LANE: Final[Span] = 20
"""Where there are many lanes, looks begin so far apart for each of them, in microseconds: about five times
what they take."""
_KEPT_FREE: Final = 8
"""One part in this many of the memory for waiting claims is kept from any one tenant."""
_CROWDED_WINDOWS: Final = 10
"""How many times the ordinary window crowded lanes are claimed ahead."""


class Claimer:
    """Fills the timetable and the runner."""

    name = "claimer"

    def __init__(
        self,
        queue: Queue,
        timetable: Timetable,
        runner: Runner,
        places: Places,
        settler: Settler,
        misfires: Misfires,
        telemetry: Telemetry,
        failpoints: Failpoints,
        *,
        ahead: float,
        batch: int,
        held_max: int,
        tenant_caps: TenantCaps,
        lateness: Lateness,
    ) -> None:
        # What is created due later than this does not send a notice, and is seen by the next look in time.
        self.interval = ahead
        self._queue = queue
        self._timetable = timetable
        self._runner = runner
        self._places = places
        self._settler = settler
        self._misfires = misfires
        self._lines = runner.line_keeper.lines
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._ahead: Span = round(ahead * SECOND)
        self._batch = batch
        self._held_max = held_max
        self._tenant_caps = tenant_caps
        self._lateness = lateness
        self._unanswered = UnansweredClaims(queue.claiming)
        self._left = LeftToOthers(settler, runner.expire, telemetry)
        self._views: list[LaneView] = []
        self._deficits_ahead = NO_DEFICITS
        self._caps: Mapping[int, int] = {}
        self._looked_at: Instant = 0
        self._began_at: Instant = 0
        self._lined: Mapping[int, int] = {}
        """How many more of some tenants should come, because many of theirs stand in line for a host."""

    async def run_once(self, now: Instant) -> Report:
        """Look if the last look is old, then claim what the capacity allows."""
        try:
            return await self._run(now)
        except Unavailable:
            self._lateness.cut_off()
            raise

    async def give_back_unanswered(self, now: Instant) -> None:
        """The worker stops: what it may hold without knowing it goes back, as if it had not been claimed."""
        claims, stopped = await self._unanswered.ask_at_last(now)
        self._runner.give_back(claims)
        self._call_off(stopped, now)

    async def _take_unanswered(self, now: Instant) -> None:
        """Run what earlier claims took whose answers were lost. Where there is no place for it by now it goes
        back."""
        claims, stopped = await self._unanswered.ask_if_due(now)
        if stopped:
            self._call_off(stopped, now)
        if claims:
            started = [claim for claim in claims if claim.started_at is not None]
            too_many = started[max(0, self._places.unused) :]
            self._runner.give_back(too_many)
            self._tenant_caps.spend(claims)
            self._dispatch(without(claims, too_many), now)

    def _call_off(self, stopped: Sequence[Claim], now: Instant) -> None:
        stopped, unreadable = sort_out(stopped)
        self._left.put_back(unreadable, now)
        self._runner.call_off(stopped)

    async def _run(self, now: Instant) -> Report:
        await self._take_unanswered(now)
        if self._look_is_old(now) and now >= self._next_look(now):
            await self._look(now)
        ready = [view for view in self._near(now) if view.next_run_at <= now + self._window(view, now)]
        allotments = self._allot(ready, now)
        self._places.blocked = not allotments and any(
            view.lane.tenant_id not in self._lined for view in ready
        )
        if ready and not allotments:
            self._lateness.blocked(self._caps, self._tenant_caps.limits, ready, now)
            # Until the runner has room again, or a tenant that is at its limit.
            return Report(again_at=now + _BLOCKED)
        if not ready:
            self._lateness.saturated(now, true=False)
            return self._rest(now)
        farther = {
            view.lane: now + window for view in ready if (window := self._window(view, now)) != self._ahead
        }
        late_for = self._lateness.of_lanes(ready, now)
        token = secrets.randbits(63)
        try:
            claims = await self._queue.claiming.claim(
                allotments, now + self._ahead, token, now, farther, late_for
            )
        except BaseException:
            self._unanswered.note(token, now)
            raise
        finally:
            self._places.claiming = 0
        self._tenant_caps.spend(claims)
        await self._failpoints.reach("claimer.claimed")
        self._telemetry.claimed.inc(len(claims))
        self._dispatch(claims, now)
        allotted = sum(allotment.take for allotment in allotments)
        self._lateness.took(claims, self._caps, self._tenant_caps.limits, allotted, now)
        if len(claims) < allotted:
            self._forget_short(allotments, claims, now)
        if claims and self._gate_crowded(now):
            return Report(done=len(claims), again_at=now + _CROWDED_PAUSE)
        return Report(done=len(claims), again_at=AGAIN_NOW if claims else self._rest(now).again_at)

    def forget_look(self) -> None:
        """Something new is in the queue: the next run looks again."""
        self._looked_at = 0

    def _look_is_old(self, now: Instant) -> bool:
        return has_passed(_LOOK_VALID, self._looked_at, now) or not self._views

    def _next_look(self, now: Instant) -> Instant:
        """When the next look may be made. Where there are many lanes, looks take long, and leave time for
        other things."""
        lanes = self._queue.looking.lanes_known
        if lanes < _MANY_LANES or now < self._began_at:
            return now
        return self._began_at + lanes * _APART_PER_LANE

    def _forget_short(self, allotments: Sequence[Allotment], claims: Sequence[Claim], now: Instant) -> None:
        """Lanes that had less than was allotted are empty: what they are by now the next look shows."""
        taken = Counter([claim.lane for claim in claims])
        short = {lane for lane, take in allotments if taken[lane] < take}
        due = [view.lane for view in self._views if view.next_run_at <= now]
        self._places.unserved(lane for lane in due if lane in short and not taken[lane])
        self._views = [view for view in self._views if view.lane not in short]
        self._looked_at = 0
        self._places.queued = ()

    def _near(self, now: Instant) -> list[LaneView]:
        """Lanes from which something may be claimed now or soon: of thousands often few."""
        far = now + _CROWDED_WINDOWS * self._ahead
        return [view for view in self._views if view.next_run_at <= far]

    async def _look(self, now: Instant) -> None:
        self._began_at = now
        self._looked_at = now  # from before it began: what becomes new meanwhile it may not have seen
        try:
            views = await self._queue.looking.look(
                now, self._crowd(now), now + _CROWDED_WINDOWS * self._ahead
            )
        except BaseException:
            self._looked_at = 0
            raise
        self._lateness.reached(now)
        self._views = views
        self._places.learn(self._queue.looking.weights)

    def _window(self, view: LaneView, now: Instant) -> Span:
        """How far ahead a lane is claimed. Not farther than usual under a tenant's limit: claims count as in
        flight. Not ahead at all if this worker lately found a job there that it cannot read."""
        if self._left.shy_of(view.lane, now):
            return 0
        limited = view.in_flight is not None or view.fires_per_second is not None
        return _CROWDED_WINDOWS * self._ahead if view.crowded and not limited else self._ahead

    def _crowd(self, now: Instant) -> int:
        """From how many on a lane is crowded. Of many lanes each counts less: what they hold in all is what
        takes long to claim, and to count."""
        return min(_CROWD_BATCHES * self._batch, max(1, _COUNTED_BY_A_LOOK // max(1, len(self._near(now)))))

    def _unsettled(self) -> Iterator[Claim]:
        """Everything this worker has claimed and not yet settled."""
        return chain(self._timetable, self._runner.claims(), self._settler.claims())

    def _allot(self, ready: Sequence[LaneView], now: Instant) -> list[Allotment]:
        """What to take of lanes that have something due, or due soon. Due executions need a place, those
        ahead memory."""
        self._places.queued = ()
        if not ready or max(self._settler.backlog, len(self._misfires)) > _BACKLOG_BATCHES * self._batch:
            return []
        due = [view for view in ready if view.next_run_at <= now]
        ahead = [view for view in ready if view.next_run_at > now]
        self._caps = self._tenant_caps.caps(ready, self._unsettled(), now)
        self._lined = self._lines.rooms()
        caps = {**self._caps, **{t: min(n, self._caps.get(t, n)) for t, n in self._lined.items()}}
        # Beside a crowd at the gate a little of every lane: there may be some that need not pass it.
        crowded = due and self._gate_crowded(now)
        batch = max(self._batch // _CROWDED_SHARE, len(ready)) if crowded else self._batch
        claimed = self._timetable.due(now)
        if not self._timetable.due_calls:
            claimed = {}  # what takes no place
        allotments = self._allot_due(due, batch, caps, claimed)
        room = min(self._batch, self._held_max - len(self._timetable))
        if due:
            room = min(room, self._places.free - sum(claimed.values()))
        if ahead and room > 0:
            shares, self._deficits_ahead = allot(
                self._deficits_ahead, ahead, room, self._caps_ahead(caps, allotments)
            )
            allotments += shares
        return allotments

    def _allot_due(
        self, due: Sequence[LaneView], batch: int, caps: Mapping[int, int], claimed: Mapping[Lane, int]
    ) -> list[Allotment]:
        """Places for what is due in the queue. The starter hears which lanes have to do with fewer than they
        would take."""
        if self._places.free < batch + sum(claimed.values()):
            self._places.queued = [view for view in due if caps.get(view.lane.tenant_id, 1) > 0]
        if not due or self._places.free <= 0:
            return []
        return self._places.for_queued(due, batch, caps, claimed)

    def _caps_ahead(self, caps: Mapping[int, int], due: Sequence[Allotment]) -> Mapping[int, int]:
        """What is due counts first. And no tenant alone fills the memory for what waits: others want to be on
        time, too."""
        left = Counter(caps)
        for lane, take in due:
            if lane.tenant_id in caps:
                left[lane.tenant_id] -= take
        if len(self._timetable) < self._held_max // 2:
            return left
        most = self._held_max - self._held_max // _KEPT_FREE
        claimed = Counter(claim.tenant_id for claim in self._timetable)
        return {**{tenant: max(0, most - count) for tenant, count in claimed.items()}, **left}

    def _gate_crowded(self, now: Instant) -> bool:
        """Whether so much waits to pass the gate that more of it would only wait longer."""
        enough = _GATE_BATCHES * self._batch
        return self._timetable.gated >= enough and self._timetable.late_at_gate(now) >= enough

    def _dispatch(self, claims: list[Claim], now: Instant) -> None:
        claims, unreadable = sort_out(claims)
        if unreadable:
            self._left.put_back(unreadable, now)
        started = [claim for claim in claims if claim.started_at is not None]
        if started:
            self._runner.run(started)
        if len(started) < len(claims):
            self._timetable.add([claim for claim in claims if claim.started_at is None])
        self._telemetry.held.set(len(self._timetable))

    def _rest(self, now: Instant) -> Report:
        """Sleep until the next known run time is near, but never longer than the interval."""
        latest = now + round(self.interval * SECOND)
        if self._look_is_old(now) and (next_look := self._next_look(now)) > now:
            latest = min(latest, next_look)
        ahead = [(view, min(self._ahead, self._window(view, now))) for view in self._near(now)]
        coming = [view.next_run_at - window for view, window in ahead if view.next_run_at > now + window]
        return Report(again_at=min([latest, *coming]))
