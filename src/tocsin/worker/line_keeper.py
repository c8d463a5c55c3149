"""Lets calls wait for their host, and go out when it is their turn.

`host_lines` decides whose turn it is; this gives it a place on the worker. Where places are short, every
second one is for work that stands in no line, so that one busy host cannot keep all of them. What would stand
in line for long goes back to the queue, where it waits for its host without an attempt.

While something stands in line this looks a few times a second; a place that was left for others and not taken
then goes to the next in line. While nothing stands in line it sleeps.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tocsin.clock import Clock
from tocsin.domain.instant import MILLISECOND, Instant
from tocsin.domain.outcome import Outcome, Verdict
from tocsin.domain.waits import Reason
from tocsin.queue.claims import Claim
from tocsin.service import Report
from tocsin.signals import Signal
from tocsin.targets.caller import Host
from tocsin.worker.host_lines import HostLines
from tocsin.worker.places import Places
from tocsin.worker.settler import Settlement, Settler
from tocsin.worker.timetable import Timetable

_LOOK_EVERY: Final = 200 * MILLISECOND
_STANDING_PER_PLACE: Final = 4
_SHORT_SHARE: Final = 8
"""Places are short when no more than this part of them is free."""
_NOT_CALLED: Final = Outcome(Verdict.CANCELLED, error="cancelled while it waited for its host")


class LineKeeper:
    """Looks after the lines of one worker."""

    name = "line_keeper"
    interval = 60.0  # woken when something stands in line

    def __init__(
        self,
        settler: Settler,
        clock: Clock,
        places: Places,
        timetable: Timetable,
        call: Callable[[Host, Claim], None],
        *,
        calls_per_host: int,
        rooms: Mapping[Host, int] | None = None,
    ) -> None:
        """`call` is called with what leaves its line, and the host that has a connection for it."""
        self.lines = HostLines(calls_per_host, _STANDING_PER_PLACE * places.capacity, rooms)
        self._settler = settler
        self._clock = clock
        self._places = places
        self._timetable = timetable
        self._call = call
        self._short_of_places = max(2, places.capacity // _SHORT_SHARE)
        self._place_is_for_others = False
        self.in_line = Signal("in_line")
        """Sent when something stands in line where nothing did."""

    async def run_once(self, now: Instant) -> Report:
        """Send back what would stand for long; serve the others if there is a place."""
        self.shorten(now)
        self.serve()
        return Report(again_at=now + _LOOK_EVERY if len(self.lines) else None)

    def wait_for(self, host: Host, claim: Claim, now: Instant) -> None:
        """Let a call wait for its host: in line if that is short enough, else in the queue."""
        if not self.lines.stand(host, claim, now):
            self._send_back(host, claim, now)
        elif len(self.lines) == 1:
            self.in_line.send()

    def shorten(self, now: Instant) -> None:
        """Send those back to the queue that would stand in line for long."""
        for host, claim in self.lines.overstayed(now):
            self._send_back(host, claim, now)

    def serve(self) -> None:
        """Begin the calls whose turn it is, as far as there are places."""
        places = self._places.unused if len(self.lines) else 0
        if 0 < places <= self._short_of_places and self._others_wait():
            self._place_is_for_others = not self._place_is_for_others
            places = 0 if self._place_is_for_others else 1
        for _ in range(places):
            if (called := self.lines.next_call()) is None:
                break
            self._call(*called)

    def _others_wait(self) -> bool:
        """Whether something that stands in no line wants a place."""
        next_at = self._timetable.next_at()
        return self._places.blocked or (next_at is not None and next_at <= self._clock.now())

    def stop(self, claim: Claim) -> bool:
        """End an execution in line on request. Whether it stood there."""
        if not self.lines.drop(claim):
            return False
        self._settler.put(Settlement(claim, _NOT_CALLED, self._clock.now()))
        return True

    def close(self) -> None:
        """The worker stops: what stands in line goes back, and so does what would stand there."""
        for claim in self.lines.close():
            self._give_back(claim, self._clock.now())

    def _send_back(self, host: Host, claim: Claim, now: Instant) -> None:
        """To the queue: at once if this worker stops, else until the host may have a connection free."""
        if self.lines.closed:
            self._give_back(claim, now)
            return
        come_back_at = now + self.lines.wait(host, claim.tenant_id, now)
        self._settler.put(
            Settlement(claim, _NOT_CALLED, now, postponed_to=come_back_at, waits_for=Reason.HOST_LINE)
        )

    def _give_back(self, claim: Claim, now: Instant) -> None:
        self._settler.put(Settlement(claim, _NOT_CALLED, now, postponed_to=claim.run_at))
