"""One fire more, or one fire less, than the schedule says: run now, skip the next."""

from uuid import UUID

from tocsin.db.pool import Database
from tocsin.db.turns import pass_turns
from tocsin.domain.cells import CELL
from tocsin.domain.errors import Conflict
from tocsin.domain.ids import ExecutionKey
from tocsin.domain.instant import Instant
from tocsin.domain.planning import Plan, Skip
from tocsin.domain.schedule import rule_of
from tocsin.store.control.locked_job import lock_job, policies_of, schedule_of, wrong_state
from tocsin.store.control.replanning import write_plan
from tocsin.store.executions import hold_executions
from tocsin.store.repeats import Once, take_key
from tocsin.store.statements import sql


class Firing:
    """Fires jobs by hand, and leaves fires out."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(
        self,
        tenant_id: int,
        job_id: UUID,
        now: Instant,
        *,
        beside: bool = False,
        again: Instant | None = None,
        once: Once | None = None,
    ) -> ExecutionKey:
        """Fire a job now, whatever its schedule says.

        `beside` lets it run although the job must not overlap; `again` is the fire time of the execution that
        this one repeats.
        """
        async with self._database.transaction() as session:
            job = await lock_job(session, tenant_id, job_id)
            if job["state"] == "cancelled":
                raise wrong_state("run", job)
            fire_at, cause = now, "manual" if again is None else "rerun"
            while (
                await session.fetchrow(sql("add_execution"), CELL, job_id, fire_at, cause, beside, again)
                is None
            ):
                fire_at += 1  # that very microsecond is taken
            await take_key(session, once, job_id, fire_at)
            await session.execute("SELECT pg_notify('tocsin', 'ready')")
            return ExecutionKey(job_id, fire_at)

    async def skip_next(self, tenant_id: int, job_id: UUID, *, once: Once | None = None) -> Instant:
        """Leave the next fire out. Returns its fire time."""
        async with self._database.transaction() as session:
            job = await lock_job(session, tenant_id, job_id)
            if job["state"] not in ("active", "completed") or job["kind"] != "recurring":
                raise wrong_state("skip the next fire of", job)
            await hold_executions(session, [job_id])
            row = await session.fetchrow(sql("skip_execution"), CELL, job_id)
            if row is not None:
                await take_key(session, once, job_id, row["fire_at"])
                await pass_turns(session, CELL, [job_id])  # it may have been next
                return int(row["fire_at"])
            if job["state"] == "completed" or job["next_fire_at"] is None:
                raise Conflict("the schedule never fires again")
            fire = int(job["next_fire_at"])
            following = rule_of(schedule_of(job)).next_fire(fire)
            skipped = Plan([], [Skip(fire, fire, 1, "skip_next")], following)
            await take_key(session, once, job_id, fire)
            await write_plan(session, job_id, policies_of(job), skipped)
            return fire
