"""Notices when the database's clock was set, and lets recurring jobs go on when an error of it was put right.

While the clock is ahead, the planner takes the time in between for an outage: it skips fire times that have
not come yet, and puts cursors behind them. When the clock is right again, those jobs would be silent until it
gets there once more. So what was skipped under the wrong clock is taken back, and the cursors with it. What
was called too early cannot be taken back.

Every scheduler watches, and logs; the one that leases shard 0 takes back. It does so only for a jump ahead
that it has seen itself.
"""

from collections.abc import Callable
from typing import Final

import structlog

from tocsin.clock import Clock
from tocsin.domain.clock_jumps import ClockJumps
from tocsin.domain.instant import SECOND, Instant
from tocsin.scheduler.leaser import Leases
from tocsin.service import AGAIN_NOW, Report
from tocsin.store.rewinding import Rewinding

_GUARD_SHARD: Final = 0
_log = structlog.get_logger()


class ClockWatch:
    """Looks every second, which asks the database nothing."""

    name = "clock_watch"
    interval = 1.0

    def __init__(
        self, clock: Clock, rewinding: Rewinding, leases: Leases, rewound: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._rewinding = rewinding
        self._leases = leases
        self._rewound = rewound
        self._jumps = ClockJumps()
        self._owed = False
        """Whether something has to be taken back."""

    async def run_once(self, now: Instant) -> Report:
        """Look at the clock; take back what was decided while it was wrong."""
        jump = self._jumps.observe(now - round(self._clock.monotonic() * SECOND))
        if jump is not None:
            _log.warning("clock.was_set", seconds=round(jump.by / SECOND, 3), put_right=jump.put_right)
            self._owed = self._owed or jump.put_right
        if not self._owed or _GUARD_SHARD not in self._leases.trusted():
            return Report()
        jobs, full = await self._rewinding.rewind(now)
        self._owed = full
        if jobs:
            _log.warning("clock.jobs_rewound", jobs=jobs)
            self._rewound()
        return Report(done=jobs, again_at=AGAIN_NOW if full and jobs else None)
