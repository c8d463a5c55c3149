"""Jobs that have an owner: a program or a file that declares all of its jobs at once.

A declaration is accepted first, which gives it a round, and then carried out job by job, each in a
transaction of its own that proves the round. So an older declaration that is still under way when a newer one
is accepted writes nothing after it (`Overtaken`), and one that broke off is repeated as a whole. A job is
changed by the declarations of its owner alone; a person pauses it, runs it, or cancels it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

import msgspec

from tocsin.db.pool import Database, Record, Session, Within
from tocsin.domain.cells import CELL
from tocsin.domain.instant import Instant
from tocsin.domain.job import Definition
from tocsin.domain.schedule import rule_of
from tocsin.store.control.cancelling import Cancelling
from tocsin.store.control.changing import Changing
from tocsin.store.control.locked_job import lock_job, managed
from tocsin.store.jobs import NewJob, define_in
from tocsin.store.statements import sql

_LIVE: Final = "j.kind = 'recurring' AND j.state IN ('active', 'paused')"


class Round(msgspec.Struct, frozen=True):
    """A declaration that was accepted."""

    tenant_id: int
    owner: str
    number: int


class Overtaken(Exception):
    """A newer declaration of the same owner was accepted; nothing of this one is written any more."""


class Declaring:
    """Owners of jobs and what they declare; every method names the tenant it acts for."""

    def __init__(self, database: Database, horizon: float) -> None:
        self._database = database
        self._horizon = horizon

    async def revision(self, tenant_id: int, owner: str) -> int | None:
        """The highest revision that the owner has declared."""
        row = await self._database.fetchrow(
            "SELECT revision FROM declarations WHERE tenant_id = $1 AND owner = $2", tenant_id, owner
        )
        return None if row is None else row["revision"]

    async def owners(self, tenant_id: int) -> list[Record]:
        """All owners, by name."""
        return await self._database.fetch(
            "SELECT d.owner, d.revision, d.declared_at, (SELECT count(*) FROM jobs j WHERE j.cell = $2"  # noqa: S608
            f" AND j.tenant_id = d.tenant_id AND j.managed_by = d.owner AND {_LIVE}) AS jobs"
            " FROM declarations d WHERE d.tenant_id = $1 ORDER BY d.owner",
            tenant_id,
            CELL,
        )

    async def known(self, tenant_id: int, owner: str, names: Sequence[str]) -> list[Record]:
        """The owner's jobs, ended ones as far as they are named, and the live jobs of others that have one of
        the names. The owner's own come last, and of those with one name the live or latest one does."""
        given = (CELL, tenant_id, owner, list(names))
        others = await self._database.fetch(
            f"{sql('job_columns')} WHERE j.cell = $1 AND j.tenant_id = $2 AND j.name = ANY ($4::text[])"
            f" AND {_LIVE} AND j.managed_by IS DISTINCT FROM $3",
            *given,
        )
        own = await self._database.fetch(
            f"{sql('job_columns')} WHERE j.cell = $1 AND j.tenant_id = $2 AND j.managed_by = $3"
            f" AND j.kind = 'recurring' AND (j.state IN ('active', 'paused') OR j.name = ANY ($4::text[]))"
            " ORDER BY j.state IN ('active', 'paused'), j.id",
            *given,
        )
        return others + own

    async def accept(self, tenant_id: int, owner: str, revision: int | None) -> Round | None:
        """Begin a declaration. None if a higher revision was declared before."""
        row = await self._database.fetchrow(
            "INSERT INTO declarations AS d (tenant_id, owner, revision) VALUES ($1, $2, $3)"
            " ON CONFLICT (tenant_id, owner) DO UPDATE"
            " SET revision = excluded.revision, round = d.round + 1, declared_at = tocsin_now()"
            " WHERE d.revision IS NULL OR excluded.revision >= d.revision RETURNING round",
            tenant_id,
            owner,
            revision,
        )
        return None if row is None else Round(tenant_id, owner, row["round"])

    async def create(self, round_: Round, jobs: Sequence[NewJob], now: Instant) -> set[UUID]:
        """Write new jobs as the owner's. Returns those whose names were taken meanwhile."""
        async with self._proved(round_) as session:
            refused = await define_in(session, jobs, now)
            await session.execute(
                "UPDATE jobs SET managed_by = $3 WHERE cell = $1 AND id = ANY ($2::uuid[])",
                CELL,
                [job.id for job in jobs if job.id not in refused],
                round_.owner,
            )
            return refused

    async def change(self, round_: Round, job_id: UUID, definition: Definition, now: Instant) -> None:
        """Make a job what is declared: the owner's own, also one that has ended, or one without an owner."""
        async with self._proved(round_) as session:
            job = await lock_job(session, round_.tenant_id, job_id)
            if job["managed_by"] not in (None, round_.owner):
                raise managed(job["managed_by"])
            await session.execute(
                "UPDATE jobs SET managed_by = $3 WHERE cell = $1 AND id = $2", CELL, job_id, round_.owner
            )
            if job["state"] in ("cancelled", "completed"):
                await _revive(session, job_id, definition, now)
            changing = Changing(Within(session), self._horizon)
            await changing.update(round_.tenant_id, job_id, definition, now, version=None, owner=round_.owner)

    async def remove(self, round_: Round, job_id: UUID, reason: str) -> None:
        """Cancel a job of the owner."""
        async with self._proved(round_) as session:
            job = await lock_job(session, round_.tenant_id, job_id)
            if job["managed_by"] == round_.owner and job["state"] in ("active", "paused"):
                await Cancelling(Within(session)).cancel(round_.tenant_id, job_id, reason)

    async def release(self, tenant_id: int, owner: str) -> int | None:
        """Forget an owner; its jobs stay and have no owner. Returns how many there were; None: no such
        owner."""
        async with self._database.transaction() as session:
            known = await session.fetchrow(
                "DELETE FROM declarations WHERE tenant_id = $1 AND owner = $2 RETURNING owner",
                tenant_id,
                owner,
            )
            freed = await session.fetch(
                "UPDATE jobs SET managed_by = NULL, version = version + 1, updated_at = tocsin_now()"
                " WHERE cell = $1 AND tenant_id = $2 AND managed_by = $3 RETURNING id",
                CELL,
                tenant_id,
                owner,
            )
            return len(freed) if known is not None or freed else None

    @asynccontextmanager
    async def _proved(self, round_: Round) -> AsyncIterator[Any]:
        async with self._database.transaction() as session:
            row = await session.fetchrow(
                "SELECT round FROM declarations WHERE tenant_id = $1 AND owner = $2 AND round = $3 FOR SHARE",
                round_.tenant_id,
                round_.owner,
                round_.number,
            )
            if row is None:
                raise Overtaken
            yield session


async def _revive(session: Session, job_id: UUID, definition: Definition, now: Instant) -> None:
    """Let an ended job fire again from now on, under its new schedule."""
    await session.execute(
        "UPDATE jobs SET state = 'active', state_reason = NULL, next_fire_at = $3 WHERE cell = $1 AND id = $2",
        CELL,
        job_id,
        rule_of(definition.schedule).next_fire(now),
    )
