"""What this process found that it cannot read: told once, counted each time, and passed over for a while.

A row that a newer version wrote is left to newer nodes. A part that looks for work in batches would find it
first each time, so it is remembered by id and version, and the next looks leave it out. A change of the row
ends that at once. After a minute it is read again in any case, for a calendar that it names may have changed.
The memory is bounded. Beyond the bound the oldest entries are forgotten, and are found and told of again.
"""

from typing import Final
from uuid import UUID

import structlog

from tocsin.domain.ids import job_text
from tocsin.domain.instant import MINUTE, Instant
from tocsin.telemetry import Telemetry

_PASSED_OVER: Final = MINUTE
_REMEMBERED: Final = 100_000
_log = structlog.get_logger()


class Unread:
    """Jobs whose text, or something of theirs, one part of this process could not read. `kind` is what it
    looks for."""

    def __init__(self, kind: str, telemetry: Telemetry | None = None) -> None:
        self._kind = kind
        self._counter = telemetry and telemetry.left_for_newer.labels(kind)
        self._until: dict[tuple[UUID, int], Instant] = {}
        self.noted = 0
        """How often something could not be read."""

    def note(self, job_id: UUID, version: int, why: str, now: Instant) -> None:
        """This version of a job cannot be read."""
        if (job_id, version) not in self._until:
            _log.warning("job.left_for_newer", kind=self._kind, job=job_text(job_id), reason=why)
        self._until.pop((job_id, version), None)
        self._until[job_id, version] = now + _PASSED_OVER
        if len(self._until) > _REMEMBERED:
            del self._until[next(iter(self._until))]
        self.noted += 1
        if self._counter:
            self._counter.inc()

    def passed_over(self, now: Instant) -> tuple[list[UUID], list[int]]:
        """Ids and versions that a look leaves out."""
        current = [pair for pair, until in self._until.items() if until > now]
        return [job_id for job_id, _ in current], [version for _, version in current]
