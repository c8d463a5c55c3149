-- Queue executions of a backfill. Runs with the backfill locked. A fire time that has run already keeps its
-- identity for itself: under `all` its second run is an execution of its own that remembers the origin ($6,
-- one stand-in identity each), under `missing` it is left out. Executions of a job that must not overlap take
-- turns: a backfill is there to run, not to be skipped.
-- Caller: BackfillStore._queue.
-- Locks: the new executions.
-- Index: jobs_pkey, executions_pkey, history_of_job.
-- Zero rows: never; one row says how many were queued.
WITH asked AS (
    SELECT f.fire_at, f.stand_in, j.cell, j.id, j.tenant_id, j.queue, j.policies ->> 'overlap' AS overlap,
           j.policies -> 'limit' ->> 'key' AS limit_key, route_of(j.target) AS route,
           EXISTS (SELECT FROM history h WHERE h.cell = $1 AND h.job_id = $2 AND h.fire_at = f.fire_at
                   AND h.state <> 'skipped')
           OR EXISTS (SELECT FROM executions e WHERE e.cell = $1 AND e.job_id = $2 AND e.fire_at = f.fire_at) AS ran
    FROM unnest($5::timestamptz[], $6::timestamptz[]) AS f (fire_at, stand_in)
    JOIN jobs j ON j.cell = $1 AND j.id = $2
), queued AS (
    INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, cause, overlap,
                            backfill_id, origin_fire_at, limit_key, route)
    SELECT cell, id, CASE WHEN ran THEN stand_in ELSE fire_at END, tenant_id, queue, $4, tocsin_now(), tocsin_now(),
           'backfill', CASE WHEN overlap IS NOT NULL THEN 'queue' END, $3, CASE WHEN ran THEN fire_at END, limit_key,
           route
    FROM asked WHERE NOT ran OR $7
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*)::integer AS queued FROM queued
