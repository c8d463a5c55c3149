"""Resumes jobs whose pause had an end."""

from typing import Any, Final

import structlog

from tocsin.domain.errors import Conflict, NotFound, OwnershipLost, Unavailable, Unreadable
from tocsin.domain.ids import job_text
from tocsin.domain.instant import SECOND, Instant
from tocsin.scheduler.leaser import Leases
from tocsin.service import AGAIN_NOW, Report
from tocsin.store.control.pausing import Pausing
from tocsin.store.unread import Unread

_LOOK: Final = 30 * SECOND
_log = structlog.get_logger()


class Resumer:
    """Looks after the jobs of the shards that this node leases."""

    name = "resumer"
    interval = 30.0

    def __init__(self, pausing: Pausing, leases: Leases, unread: Unread | None = None) -> None:
        self._unread = unread or Unread("pause")
        self._pausing = pausing
        self._leases = leases

    async def run_once(self, now: Instant) -> Report:
        """Resume what is due, just as a person would; sleep until the next pause ends."""
        shards = sorted(self._leases.trusted())
        if not shards:
            return Report()
        passed_over = self._unread.passed_over(now)
        over, next_end = await self._pausing.pauses_over(shards, now, passed_over)
        for job in over:
            await self._resume(job, now)
        if over:
            return Report(len(over), AGAIN_NOW)
        return Report(again_at=min(now + _LOOK, next_end) if next_end is not None else now + _LOOK)

    async def _resume(self, job: Any, now: Instant) -> None:
        try:
            await self._pausing.resume(job["tenant_id"], job["id"], now)
            _log.info("job.resumed", job=job_text(job["id"]))
        except Unreadable as error:
            self._unread.note(job["id"], job["version"], error.detail, now)
        except (Conflict, NotFound):
            return  # another node, or a user, was quicker
        except (Unavailable, OwnershipLost):
            raise
        except Exception as error:  # noqa: BLE001 - a defect that shows with one job keeps no other paused
            _log.error("resumer.job_failed", job=job_text(job["id"]), exc_info=error)
            self._unread.note(job["id"], job["version"], repr(error), now)
