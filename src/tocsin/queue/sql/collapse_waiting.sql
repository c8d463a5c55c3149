-- Of the executions of a job that wait for their turn only the latest stays. Called by Gate inside the transaction that decides
-- about the job, for claims that are about to wait. What has been missed is not among those: its misfire policy decides.
WITH gone AS (
    DELETE FROM executions e
    USING (
        SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[]) AS g (job_id, fire_at) OFFSET 0
    ) AS c
    WHERE e.cell = ANY (ARRAY[c.cell]) AND e.job_id = c.job_id AND e.fire_at < c.fire_at AND e.overlap = 'collapse'
      AND e.started_at IS NULL AND e.attempt = 1 AND e.due_at <= tocsin_now()
      AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now())
    RETURNING e.*
)
INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, finished_at,
                     attempt, reason, origin_fire_at, backfill_id)
SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'skipped', due_at, run_at, tocsin_now(),
       attempt, 'overlap', origin_fire_at, backfill_id
FROM gone
