"""Virtual time, as users' tests have it, and an alarm of the simulation's own workers that rings on it."""

from typing import Any

from tocsin.clock import VirtualClock
from tocsin.domain.instant import Instant, Span
from tocsin.testing.virtual_time import START, VirtualLoop, VirtualTime, open_on_virtual_time, run_virtually
from tocsin.worker.runner import Runner

__all__ = ["START", "VirtualLoop", "VirtualTime", "VirtualTimer", "open_on_virtual_time", "run_virtually"]


class VirtualTimer:
    """Takes the place of the timer of a worker's alarm: rings when the driver of a test says so."""

    def __init__(self, clock: VirtualClock, runner: Runner) -> None:
        self._clock = clock
        self._alarm: Any = runner._armed._alarm
        self._alarm._timer = self
        self.ring_at: Instant | None = None

    def set(self, wait: Span) -> None:
        self.ring_at = self._clock.now() + wait

    def close(self) -> None:
        self.ring_at = None

    def ring(self) -> None:
        self.ring_at = None
        self._alarm._ring()
