-- Of the executions of a job that wait for their turn only the latest stays; the others are skipped. Runs
-- inside the transaction that decides about the jobs, for claims that are about to wait. A missed fire is not
-- among those: its misfire policy decides.
-- Caller: Turns._refuse.
-- Locks: the executions that go, by job.
-- Index: executions_pkey, one range per job.
-- Zero rows: it returns none.
WITH ended AS (
    DELETE FROM executions e
    USING (
        SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[])
            AS g (job_id, fire_at) OFFSET 0
    ) AS c, never_started('skipped', 'overlap') AS ending
    WHERE e.cell = ANY (ARRAY[c.cell]) AND e.job_id = c.job_id AND e.fire_at < c.fire_at AND e.overlap = 'collapse'
      AND e.started_at IS NULL AND e.attempt = 1 AND e.due_at <= tocsin_now()
      AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now())
    RETURNING e.*, ending.*
)
\ir move_to_history.sql
