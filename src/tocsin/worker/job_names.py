"""Names of jobs, read for the few calls that are filled in with one."""

import asyncio
from typing import Final
from uuid import UUID

from tocsin.domain.errors import Unavailable
from tocsin.store.jobs import JobStore

_PATIENCE: Final = 2.0


class JobNames:
    """Looks names up by primary key, at each call: a job may have been renamed since the last one."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs

    async def name(self, tenant_id: int, job_id: UUID) -> str:
        """The job's name; empty if it has none by now."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return (await self._jobs.names(tenant_id, {job_id})).get(job_id, "")
        except (TimeoutError, Unavailable):
            raise Unavailable("the job's name could not be read: the database did not answer") from None
