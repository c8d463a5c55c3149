"""Starts claims when the timetable says so, most of them a moment before their instant.

One batched `start` asks the database for the fire-or-skip decision; only what it grants goes to the runner,
whose alarm waits for the instant. Where there are too few places for all that have reached their time,
`Places` says whose turn it is.
"""

from typing import Final

from tocsin.domain.instant import MILLISECOND, SECOND, Instant, Span, has_passed
from tocsin.failpoints import Failpoints
from tocsin.queue.claims import Claim, without
from tocsin.queue.starting.starting import Starting
from tocsin.service import AGAIN_NOW, Report
from tocsin.telemetry import Telemetry
from tocsin.worker.lateness import Lateness
from tocsin.worker.misfires import Misfires, was_missed
from tocsin.worker.places import Places
from tocsin.worker.runner import Runner
from tocsin.worker.start_lead import StartLead
from tocsin.worker.timetable import Timetable

_BATCH: Final = 1000
_BUSY: Final = 5 * MILLISECOND
_MEANWHILE: Final = 10 * SECOND
"""A refused claim whose grace ends about now may have been refused for that."""
_WARM: Final = 60 * SECOND
_LONGEST: Final = SECOND
"""The longest wait while the timetable has something: then it looks again, for the database's clock may have
been set."""


class Starter:
    """Moves due claims from the timetable to the runner."""

    name = "starter"
    interval = 60.0  # woken when the timetable changes

    def __init__(
        self,
        starting: Starting,
        timetable: Timetable,
        runner: Runner,
        places: Places,
        misfires: Misfires,
        lateness: Lateness,
        telemetry: Telemetry,
        failpoints: Failpoints,
        lead: StartLead,
    ) -> None:
        self._starting = starting
        self._timetable = timetable
        self._runner = runner
        self._places = places
        self._misfires = misfires
        self._lateness = lateness
        self._telemetry = telemetry
        self._failpoints = failpoints
        self._lead = lead
        self.unanswered: list[Claim] = []
        """Claims whose start is being asked for."""
        self._asked_at: Instant = 0
        self._waited: Span = 0

    async def run_once(self, now: Instant) -> Report:
        """Start what is due, as far as calls may begin."""
        if self._places.free <= 0 and not self.unanswered:
            return Report(again_at=now + _BUSY)
        self._waited = max(0, now - (self._timetable.next_at() or now))
        due = self._take_due(now)
        if due:
            await self._start(due, now)
        elif has_passed(_WARM, self._asked_at, now):
            await self._start_plain([], now)  # so that the connection is there and knows the statement
        return Report(done=len(due), again_at=AGAIN_NOW if due else self._next_look(now))

    def _next_look(self, now: Instant) -> Instant | None:
        next_at = self._timetable.next_at()
        if next_at is None:
            return None
        # What is due and was not taken leaves its places to what is queued.
        return now + _BUSY if next_at <= now else min(next_at, now + _LONGEST)

    async def _start_plain(self, claims: list[Claim], now: Instant, *, again: bool = False) -> list[Claim]:
        began = self._lead.begin()
        started = await self._starting.start(claims, again=again)
        self._asked_at = now
        if claims:
            self._lead.note(began, self._waited)
        return started

    def _take_due(self, now: Instant) -> list[Claim]:
        """Due claims, those first whose start was asked for without an answer: asking again is harmless."""
        if self.unanswered:
            return self.unanswered  # they may have begun in time already, whatever the clock says now
        due = self._take_by_allotment(now, min(_BATCH, self._places.free))
        for claim in [c for c in due if c.start_by is not None and c.start_by <= max(now, c.run_at)]:
            due.remove(claim)
            self._runner.expire(claim)
        if missed := [claim for claim in due if was_missed(claim, now)]:
            self._misfires.put(missed)
            due = without(due, missed)
        return due

    def _take_by_allotment(self, now: Instant, room: int) -> list[Claim]:
        """All that has reached its time, if there is room and nothing queued waits for a place. Else by
        turns."""
        claimed = self._timetable.due(now)
        beside_queued = self._places.queued and self._timetable.due_calls
        if sum(claimed.values()) > room or beside_queued:
            due = self._timetable.take_due(self._places.for_claimed(claimed, room))
            if beside_queued and len(due) < room:
                self._places.left.send()
            return due
        due = self._timetable.take_due(claimed)
        taken = sum(claim.work.takes_place for claim in due)
        places = 0 if self._places.queued else self._places.free - taken
        return due + self._timetable.take_early(now, room - len(due), places, self._places.for_claimed)

    def _ask(self, claims: list[Claim]) -> None:
        self.unanswered = claims
        self._places.starting = sum(claim.work.takes_place for claim in claims)

    async def _start(self, due: list[Claim], now: Instant) -> None:
        await self._failpoints.reach("starter.before")
        if late_for := self._lateness.why(due[0].run_at, now):
            for claim in due:
                claim.late_for = late_for
        again = bool(self.unanswered)
        self._ask(due)
        plain = [claim for claim in due if not claim.gated]
        gated = [claim for claim in due if claim.gated]
        if plain:
            await self._run(plain, await self._start_plain(plain, now, again=again), now, left=gated)
        if gated:
            started = await self._starting.start_gated(gated, now, again=again)
            await self._run(gated, started, now, left=[])
        self._telemetry.held.set(len(self._timetable))

    async def _run(self, asked: list[Claim], started: list[Claim], now: Instant, left: list[Claim]) -> None:
        await self._failpoints.reach("starter.started")
        self._ask(left)
        if len(started) < len(asked):
            self._telemetry.not_started.inc(len(asked) - len(started))
            self._misfires.put([c for c in without(asked, started) if was_missed(c, now + _MEANWHILE)])
        if stopped := [claim for claim in started if claim.stop_asked]:
            self._runner.call_off(stopped)
            started = without(started, stopped)
        if started:
            self._runner.run(started)
