-- Take back what was skipped as missed of these jobs at an instant that has not come ($3), and the catch-ups
-- that came of it, and let the cursor stand before all that. Runs with the jobs and their executions locked.
-- Jobs that were completed meanwhile are active again if no other job has their name.
-- Caller: Rewinding.rewind.
-- Locks: the rows of history that it removes; the jobs and their executions are locked already.
-- Index: history_of_job, executions_pkey, jobs_pkey, jobs_name.
-- Zero rows: never; one row says for how many jobs something went.
WITH job AS MATERIALIZED (
    SELECT j.cell, j.tenant_id, j.id
    FROM (SELECT $1::smallint AS cell, g.id FROM unnest($2::uuid[]) AS g (id) OFFSET 0) AS w
    JOIN jobs j ON j.cell = w.cell AND j.id = w.id
    WHERE j.kind = 'recurring'
), gone AS (
    DELETE FROM history h USING job
    WHERE h.cell = job.cell AND h.job_id = job.id AND h.finished_at > $3 AND h.state = 'skipped' AND h.reason LIKE 'misfire%'
    RETURNING h.job_id, h.fire_at
), first AS MATERIALIZED (
    SELECT job_id, min(fire_at) AS fire_at FROM gone GROUP BY job_id
), late AS (
    DELETE FROM executions e USING first f
    WHERE e.cell = $1 AND e.job_id = f.job_id AND e.fire_at >= f.fire_at AND e.cause = 'catch_up'
      AND e.started_at IS NULL AND e.attempt = 1 AND e.run_at > $3
    RETURNING e.job_id
), back AS (
    UPDATE jobs j
    SET next_fire_at = f.fire_at, state = 'active', updated_at = tocsin_now(),
        fire_count = greatest(0, j.fire_count - (SELECT count(*) FROM late WHERE late.job_id = j.id))
    FROM first f
    WHERE j.cell = $1 AND j.id = f.job_id AND coalesce(j.next_fire_at > f.fire_at, true)
      AND (j.state = 'active' OR j.state = 'completed' AND NOT EXISTS (
        SELECT FROM jobs o
        WHERE o.cell = j.cell AND o.tenant_id = j.tenant_id AND o.name = j.name AND o.kind = 'recurring'
          AND o.state IN ('active', 'paused')))
)
SELECT count(*)::integer AS jobs FROM first
