"""Looks after paused queues: resumes those whose pause had an end, and takes back what was claimed a moment
too late.

A worker claims by what its last look showed. One that looked before a pause and claims after it holds
executions that it would start at their instant; for some seconds after each pause they are taken back.
"""

from typing import Final

import structlog

from tocsin.domain.instant import SECOND, Instant
from tocsin.scheduler.leaser import Leases
from tocsin.service import Report
from tocsin.store.queues import QueueStore

_LOOK: Final = 30 * SECOND
_LOOK_AFTER_PAUSE: Final = SECOND // 2
_log = structlog.get_logger()


class QueueKeeper:
    """Runs on the node that leases shard 0; a notice tells it of pauses."""

    name = "queues"
    interval = 30.0

    def __init__(self, queues: QueueStore, leases: Leases) -> None:
        self._queues = queues
        self._leases = leases

    async def run_once(self, now: Instant) -> Report:
        """Resume what is due, take back what should not start; sleep until the next pause ends."""
        if 0 not in self._leases.trusted():
            return Report(again_at=now + _LOOK)
        resumed, next_end = await self._queues.resume_ended(now)
        if resumed:
            _log.info("queues.resumed", count=resumed)
        taken, lately = await self._queues.take_back_stragglers(now)
        look = now + (_LOOK_AFTER_PAUSE if lately else _LOOK)
        return Report(resumed + taken, look if next_end is None else min(look, next_end))
