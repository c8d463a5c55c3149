"""Claims that are *armed*: started in the database, and waiting here for their instant to fire.

A start is a durable write, so it is asked for a moment before the instant. Until the instant comes the
execution counts as running for the rest of the fleet, but nothing was called yet: it can be disarmed, and
goes back as if it had not started. A call that is armed has its place on the worker already.
"""

from collections.abc import Callable, Iterator, Sequence

from tocsin.clock import Clock
from tocsin.domain.instant import Instant
from tocsin.queue.claims import Claim
from tocsin.worker.alarm import Alarm
from tocsin.worker.places import Places


class Armed:
    """The armed claims of one worker. `fire` is called with each batch whose instant has come."""

    def __init__(self, clock: Clock, places: Places, fire: Callable[[Sequence[Claim]], None]) -> None:
        self._alarm = Alarm(clock, self._ring)
        self._places = places
        self._fire = fire

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._alarm)

    def arm(self, claims: list[Claim]) -> None:
        """Fire these on their instant."""
        self._places.armed += _places_for(claims)
        self._alarm.set(claims)

    def disarm(self, claim: Claim) -> bool:
        """Keep a claim from firing. Whether it was armed."""
        if not self._alarm.drop(claim):
            return False
        self._places.armed -= _places_for([claim])
        return True

    def overdue(self, now: Instant) -> bool:
        """Whether a crowd is firing: some of it has, and the rest waits for the event loop."""
        return self._alarm.overdue(now)

    async def all_fired(self) -> None:
        """Wait until nothing is armed."""
        await self._alarm.rung_out()

    def close(self) -> list[Claim]:
        """Take out whatever has not fired: the worker stops."""
        claims = self._alarm.close()
        self._places.armed -= _places_for(claims)
        return claims

    def _ring(self, claims: list[Claim]) -> None:
        self._places.armed -= _places_for(claims)
        self._fire(claims)


def _places_for(claims: Sequence[Claim]) -> int:
    return sum([claim.work.takes_place for claim in claims])
