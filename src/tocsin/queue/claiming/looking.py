"""Looks at the lanes: which of them have something queued that runs soon, and when.

A look probes every lane that the worker serves, from its low mark. It reads index entries only, of each lane
as many as make it crowded, and locks nothing. A worker looks about once a second, and whenever a notice says
that something was added.
"""

from collections.abc import Mapping
from typing import Any, Final

from tocsin.db.pool import Database
from tocsin.db.statements import named
from tocsin.domain.instant import DAY, Instant
from tocsin.queue.claiming.directory import Directory, lane_columns
from tocsin.queue.claiming.low_marks import LowMarks
from tocsin.queue.lanes import Lane, LaneView

_LOOK = named(__package__, "look")
_LOOK_BELOW = named(__package__, "look_below")
_CENTURY: Final = 36_525 * DAY


class Looking:
    """What one worker knows of the lanes of a cell."""

    def __init__(self, database: Database, cell: int, directory: Directory) -> None:
        self._database = database
        self._cell = cell
        self.directory = directory
        self.low_marks = LowMarks()

    @property
    def weights(self) -> Mapping[int, int]:
        """What tenants weigh, as far as it is not 1."""
        return self.directory.weights

    @property
    def lanes_known(self) -> int:
        """How many lanes a look probes."""
        return len(self.directory.lanes)

    async def look(self, now: Instant, crowd: int = 1, far: Instant | None = None) -> list[LaneView]:
        """Lanes that have something queued that runs until `far`, and when, unless they are held back. A lane
        is crowded if it has as many as `crowd` of these. Without `far` all that is queued counts."""
        far = now + _CENTURY if far is None else far
        self.directory.read_all(now)
        answer = await self._ask(now, crowd, far)
        if self.directory.learn(answer):
            self.low_marks.keep(self.directory.lanes)
            answer = await self._ask(now, crowd, far)
        next_runs, views = self.directory.views(answer)
        self.low_marks.looked(now, next_runs)
        return views

    async def _ask(self, now: Instant, crowd: int, far: Instant) -> dict[str, Any]:
        directory = self.directory
        return dict(
            await self._database.one(
                *_LOOK.given(
                    cell=self._cell,
                    **directory.columns,
                    marks=self.low_marks.enter(now, directory.lanes),
                    new_from=directory.new_from,
                    crowd=crowd,
                    far=far,
                )
            )
        )

    async def look_below(self, now: Instant) -> int:
        """Look for what was left below the low marks. Returns in how many lanes there is something; the next
        look shows it."""
        stretches = self.low_marks.below(now)
        if not stretches:
            return 0
        rows = await self._database.fetch(
            *_LOOK_BELOW.given(
                cell=self._cell,
                **lane_columns(list(stretches)),
                begins=[stretch.begin for stretch in stretches.values()],
                ends=[stretch.end for stretch in stretches.values()],
            )
        )
        found = {Lane(*lane): run_at for *lane, run_at in rows}
        self.low_marks.looked_below(stretches, found)
        return len(found)
