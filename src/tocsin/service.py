"""Background work: every part is ``run_once(now) -> Report``, and this one loop drives them all.

The loop is the only place that catches broadly. A part that fails is logged, counted and tried again after a
growing pause; it never takes the process down and never spins. A part says in its report when it wants to run
again; a wake-up (a notice from the database, another part's `wake`) brings that forward. After a failure a
wake-up shortens a long pause, but never below half a second: while the database is away, work keeps arriving.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
import structlog

from tocsin.clock import Clock
from tocsin.domain.errors import OwnershipLost, Unavailable
from tocsin.domain.instant import SECOND, Instant

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 3.0
_LONGEST_PAUSE_WHEN_WOKEN: Final = 0.5
_log = structlog.get_logger()
Failed = Callable[[str, str], None]
"""Hears of a failure: the service's name, and of which kind it is."""


class Report(msgspec.Struct, frozen=True):
    """What a run did and when the next is wanted; `again_at` None leaves it to the service's interval."""

    done: int = 0
    again_at: Instant | None = None


AGAIN_NOW: Final[Instant] = 0
"""As `Report.again_at`: there is more to do right away."""


class Service(Protocol):
    """A background part."""

    name: str
    interval: float
    """Seconds between runs when the report does not say otherwise."""

    async def run_once(self, now: Instant) -> Report:
        """Do what is due at `now`, once."""


def _tell_nobody(_: str, __: str) -> None:
    """Where failures are only logged."""


class Loop:
    """Runs one service until stopped.

    `first_after` puts the first run off by that many seconds, for work that can wait: an engine that starts
    usually has a backlog. A wake-up counts in that time as well.
    """

    def __init__(self, service: Service, clock: Clock, first_after: float = 0.0) -> None:
        self.service = service
        self.failures = 0
        self._clock = clock
        self._first_after = first_after
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def wake(self) -> None:
        """Run again now, or as soon as the current run or the pause after a failure is over."""
        self._wake.set()

    def stop(self) -> None:
        """End after the current run."""
        self._stop.set()
        self._wake.set()

    async def ended(self) -> None:
        """Wait until the run that was under way at `stop` is over, if there was one."""
        await self._idle.wait()

    async def run(self, failed: Failed = _tell_nobody) -> None:
        """Drive the service. Returns after `stop`. `failed` hears of each failure."""
        self._idle.clear()
        try:
            await self._drive(failed)
        finally:
            self._idle.set()

    async def _drive(self, failed: Failed) -> None:
        if self._first_after:
            await self._sleep(self._first_after, self._wake)
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            self._wake.clear()
            try:
                report = await self.service.run_once(self._clock.now())
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - the one broad catch; see the module docstring
                self.failures += 1
                _report_failure(self.service.name, error, pause)
                failed(self.service.name, _kind_of(error))
                await self._back_off(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                pause = _FIRST_PAUSE
                await self._sleep(self._until(report), self._wake)

    def _until(self, report: Report) -> float:
        if report.again_at is None:
            return self.service.interval
        return max(0.0, (report.again_at - self._clock.now()) / SECOND)

    async def _back_off(self, seconds: float) -> None:
        """Pause after a failure. A wake-up counts once `_LONGEST_PAUSE_WHEN_WOKEN` is over; a stop ends it at
        once."""
        least = min(seconds, _LONGEST_PAUSE_WHEN_WOKEN)
        await self._sleep(least, self._stop)
        await self._sleep(seconds - least, self._wake)

    async def _sleep(self, seconds: float, unless: asyncio.Event) -> None:
        if self._stop.is_set() or seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await unless.wait()
        except TimeoutError:
            pass


def _kind_of(error: Exception) -> str:
    """The family of an error, as it is counted."""
    if isinstance(error, Unavailable):
        return "unavailable"
    return "ownership_lost" if isinstance(error, OwnershipLost) else "defect"


def _report_failure(name: str, error: Exception, pause: float) -> None:
    """Expected trouble is one line; anything else shows its traceback."""
    if isinstance(error, Unavailable):
        _log.warning("service.unavailable", service=name, error=str(error), retry_in=round(pause, 2))
    elif isinstance(error, OwnershipLost):
        _log.warning("service.ownership_lost", service=name, error=str(error), retry_in=round(pause, 2))
    else:
        _log.error(
            "service.failed", service=name, error=repr(error), retry_in=round(pause, 2), exc_info=error
        )
