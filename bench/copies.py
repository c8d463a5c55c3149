"""One-off jobs by the million: rows copied by SQL out of one that the store wrote, each with an id and
instants of its own.

A copy differs from what the API would write in nothing but how fast it is there: a job with its schedule and
target, and its execution. Ids are of version 7 and sort by age as ours do.
"""

import asyncio
from datetime import timedelta
from uuid import UUID

from bench.installation import Installation
from tocsin.clock import system_now
from tocsin.domain.instant import DAY, Instant, Span
from tocsin.domain.target import Target

PER_STATEMENT = 50_000
AT_ONCE = 2
COPY = """
WITH made AS MATERIALIZED (
    SELECT (left(stamp, 8) || '-' || right(stamp, 4) || '-7' || right(random, 21))::uuid AS id,
           (('x' || right(random, 2))::bit(8)::integer %% 256)::smallint AS shard, -- as domain.ids.shard_of
           $2::timestamptz + n * $3::interval AS due_at
    FROM (SELECT lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') AS stamp,
                 gen_random_uuid()::text AS random, n FROM generate_series(0, $4::integer - 1) AS n) AS drawn
), job AS (
    INSERT INTO jobs (%(jobs)s)
    SELECT %(job_values)s FROM made AS m, jobs AS t WHERE t.cell = 0 AND t.id = $1
)
INSERT INTO executions (%(executions)s)
SELECT %(execution_values)s FROM made AS m, executions AS t WHERE t.cell = 0 AND t.job_id = $1
"""
AT = """jsonb_build_object('at', to_char(m.due_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))"""
OF_JOB = {
    "id": "m.id",
    "shard": "m.shard",
    "schedule": AT,
    "created_at": "clock_timestamp()",
    "updated_at": "clock_timestamp()",
}
OF_EXECUTION = {"job_id": "m.id", "fire_at": "m.due_at", "due_at": "m.due_at", "run_at": "m.due_at"}


class Copies:
    """Copies one pattern job. The pattern itself is due in years and stays until all work is forgotten."""

    def __init__(self, place: Installation, pattern: UUID, statement: str) -> None:
        self._place = place
        self._pattern = pattern
        self._statement = statement

    @classmethod
    async def of_one(cls, place: Installation, target: Target | None = None) -> "Copies":
        """Write the pattern, as the API would."""
        await place.add_one_offs(1, system_now() + 3650 * DAY, target)
        pattern = (await place.database.one("SELECT id FROM jobs ORDER BY id DESC LIMIT 1"))["id"]
        jobs, executions = await _columns(place, "jobs"), await _columns(place, "executions")
        statement = COPY % {
            "jobs": ", ".join(jobs),
            "job_values": ", ".join(OF_JOB.get(name, f"t.{name}") for name in jobs),
            "executions": ", ".join(executions),
            "execution_values": ", ".join(OF_EXECUTION.get(name, f"t.{name}") for name in executions),
        }
        return cls(place, pattern, statement)

    async def add(self, count: int, first: Instant, every: Span = 0) -> None:
        """Add `count` of them, due from `first` on at even distances."""
        starts = iter(range(0, count, PER_STATEMENT))

        async def worker() -> None:
            for start in starts:
                size = min(PER_STATEMENT, count - start)
                await self._place.database.execute(
                    self._statement, self._pattern, first + start * every, timedelta(microseconds=every), size
                )

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def _columns(place: Installation, table: str) -> list[str]:
    rows = await place.database.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped"
        " ORDER BY attnum",
        table,
    )
    return [row["attname"] for row in rows]
