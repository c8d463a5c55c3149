-- Queue one execution of an existing job outside its schedule (run now, run again, resume of a one-off). $5
-- lets it run beside others although the job must not overlap. A job that is over and runs again is changed,
-- which keeps it from being forgotten at this moment.
-- Caller: Firing.run.
-- Locks: the job if it is over or a one-off; the new execution.
-- Index: jobs_pkey, executions_pkey.
-- Zero rows: the job is gone, or another request did this for the very same microsecond.
WITH touched AS (
    UPDATE jobs SET updated_at = tocsin_now() WHERE cell = $1 AND id = $2 AND (kind = 'once' OR state <> 'active')
)
INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, cause, overlap,
                        origin_fire_at, limit_key, route)
SELECT j.cell, j.id, $3, j.tenant_id, j.queue, j.priority, greatest($3, tocsin_now()), greatest($3, tocsin_now()), $4,
       CASE WHEN $5 THEN NULL ELSE j.policies ->> 'overlap' END, $6,
       j.policies -> 'limit' ->> 'key', route_of(j.target)
FROM jobs j WHERE j.cell = $1 AND j.id = $2
ON CONFLICT DO NOTHING
RETURNING fire_at
