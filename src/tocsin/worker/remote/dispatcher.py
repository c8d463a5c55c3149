"""Takes executions for the workers whose requests are parked here, and answers the requests.

One look serves all of them. The lanes that have something due are offered to the least loaded worker first,
and to the next ones only as long as there is more, to more of them together from look to look: a hundred idle
workers do not ask for one execution a hundred times. While nothing is parked nothing is asked. Between looks
it sleeps until the next run time of a lane that a worker here serves, or until a notice.
"""

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Final

from tocsin.domain.instant import MILLISECOND, SECOND, Instant
from tocsin.failpoints import Failpoints
from tocsin.queue.allotment import Allotment
from tocsin.queue.claiming.looking import Looking
from tocsin.queue.claims import Claim, without
from tocsin.queue.lanes import Lane, LaneView
from tocsin.queue.tenant_caps import TenantCaps
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry
from tocsin.worker.remote.beginning import Beginning
from tocsin.worker.remote.held import HeldClaims
from tocsin.worker.remote.served_lanes import ServedLanes
from tocsin.worker.remote.sessions import Parked, Sessions
from tocsin.worker.remote.settler import release_of
from tocsin.worker.settler import Settler

_CLAIMS_AT_ONCE: Final = 16
"""More than a gateway has connections: each has the next one waiting. With 64 workers that take one execution
at a time, 600/s instead of 160/s (two cores, shared with others)."""
_EMPTY_CLAIM_PAUSE: Final = 20 * MILLISECOND
"""Until the next look when something due could not be had: others have it, or a limit holds it back."""


class Dispatcher:
    """Answers parked requests."""

    name = "dispatcher"
    interval = 2.0  # what is created due later than this sends no notice

    def __init__(
        self,
        sessions: Sessions,
        looking: Looking,
        lanes: ServedLanes,
        beginning: Beginning,
        held: HeldClaims,
        settler: Settler,
        tenant_caps: TenantCaps,
        telemetry: Telemetry,
        failpoints: Failpoints,
    ) -> None:
        self._sessions = sessions
        self._looking = looking
        self._lanes = lanes
        self._beginning = beginning
        self._held = held
        self._settler = settler
        self._tenant_caps = tenant_caps
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._caps: dict[int, int] = {}
        self._width = 1
        """How many claims go out together: more from look to look as long as there is enough for all."""

    async def run_once(self, now: Instant) -> Report:
        """One look, and the claims that follow from it."""
        waiting = self._sessions.waiting()
        if not waiting:
            return Report()
        await self._take_unanswered(waiting, now)
        asking = [parked for parked in waiting if not parked.given.done() and parked.want > 0]
        self._lanes.serve(frozenset().union(*(parked.session.wanted for parked in asking)))
        views = await self._looking.look(now) if asking else []
        due = [view for view in views if view.next_run_at <= now]
        taken = await self._share_out(due, asking, now) if due else 0
        for parked in waiting:
            if parked.until <= now:
                parked.give([])
        return Report(taken, self._next_look(views, taken, now))

    def _next_look(self, views: Sequence[LaneView], taken: int, now: Instant) -> Instant | None:
        waiting = self._sessions.waiting()
        if not waiting:
            return None
        if taken:
            return AGAIN_NOW
        soonest = min((view.next_run_at for view in views), default=now + round(self.interval * SECOND))
        ends = min(parked.until for parked in waiting)
        return min(max(soonest, now + _EMPTY_CLAIM_PAUSE), ends, now + round(self.interval * SECOND))

    async def _take_unanswered(self, waiting: Sequence[Parked], now: Instant) -> None:
        """Hand out what earlier claims took whose answers were lost."""
        for parked in waiting:
            claims, stopped = await parked.session.unanswered.ask_if_due(now)
            for claim in self._held.known_again(stopped):
                self._settler.put(release_of(claim, now))
            if claims:
                await self._hand_out(parked, self._held.known_again(claims), now)

    async def _share_out(self, due: Sequence[LaneView], asking: Sequence[Parked], now: Instant) -> int:
        """Claim for one worker after the other, more of them at once as long as there is more."""
        self._caps = self._tenant_caps.caps(due, self._held, now)
        left, line, taken = list(due), deque(asking), 0
        while left and line:
            wave = self._next_wave(left, line, self._width)
            if not wave:
                break
            answers = await asyncio.gather(
                *(self._take(parked, allotments, now) for parked, allotments in wave), return_exceptions=True
            )
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                number, exhausted = answer
                taken += number
                left = [view for view in left if view.lane not in exhausted]
            self._width = min(2 * self._width, _CLAIMS_AT_ONCE) if left else 1
        return taken

    def _next_wave(
        self, left: Sequence[LaneView], line: deque[Parked], width: int
    ) -> list[tuple[Parked, list[Allotment]]]:
        wave: list[tuple[Parked, list[Allotment]]] = []
        while line and len(wave) < width:
            parked = line.popleft()
            if parked.given.done():
                continue
            if allotments := parked.session.allot(left, parked.want, self._caps):
                self._spend_caps(allotments)
                wave.append((parked, allotments))
        return wave

    def _spend_caps(self, allotments: Sequence[Allotment]) -> None:
        for lane, take in allotments:
            if lane.tenant_id in self._caps:
                self._caps[lane.tenant_id] = max(0, self._caps[lane.tenant_id] - take)

    async def _take(
        self, parked: Parked, allotments: Sequence[Allotment], now: Instant
    ) -> tuple[int, set[Lane]]:
        """Claim for one worker. Returns how much it got, and the lanes that have no more."""
        session, token = parked.session, secrets.randbits(63)
        parked.taking = True
        try:
            claims = await session.claiming.claim(allotments, now, token, now)
            self._tenant_caps.spend(claims)
            self._telemetry.claimed.inc(len(claims))
            await self._failpoints.reach("gateway.claimed")
        except BaseException:
            session.unanswered.note(token, now)
            raise
        else:
            await self._hand_out(parked, claims, now)
        finally:
            parked.taking = False
        exhausted = _exhausted(allotments, claims)
        session.untaken(lane for lane in exhausted if not any(claim.lane == lane for claim in claims))
        return len(claims), exhausted

    async def _hand_out(self, parked: Parked, claims: Sequence[Claim], now: Instant) -> None:
        """Answer with what may begin. A request that ended meanwhile does not get it: it goes back.

        The claims are held from the beginning. If a start has no answer, some of them may have started on
        slots of this gateway: they are asked for again, and the keeper learns when their worker is lost.
        """
        session = parked.session
        self._held.add(claims, now)
        try:
            begun = await self._beginning.begin(claims, now)
            for claim in begun:
                claim.worker_id = session.worker_id
            await self._failpoints.reach("gateway.begun")
        except BaseException:
            for token in {claim.token for claim in claims}:
                session.unanswered.note(token, now)
            raise
        self._held.drop(without(claims, begun))
        if not begun:
            return
        if parked.give(begun):
            session.running += len(begun)
        else:
            self._held.drop(begun)
            for claim in begun:
                self._settler.put(release_of(claim, now))


def _exhausted(allotments: Sequence[Allotment], claims: Sequence[Claim]) -> set[Lane]:
    taken: Mapping[Lane, int] = Counter(claim.lane for claim in claims)
    return {lane for lane, take in allotments if taken[lane] < take}
