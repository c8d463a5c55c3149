-- Record fire times of a locked job that will not run. Runs inside the transaction that changes the job.
-- Caller: replanning.skip_fires.
-- Locks: nothing.
-- Index: jobs_pkey.
-- Zero rows: never read; the rows go to history.
INSERT INTO history (cell, job_id, fire_at, fire_until, fire_count, tenant_id, queue, priority, cause, state,
                     due_at, run_at, finished_at, attempt, reason)
SELECT j.cell, j.id, k.first, k.last, k.count, j.tenant_id, j.queue, j.priority, 'schedule', 'skipped',
       k.first, k.first, tocsin_now(), 1, k.reason
FROM jsonb_to_recordset($3::jsonb) AS k (first timestamptz, last timestamptz, count integer, reason text)
JOIN jobs j ON j.cell = $1 AND j.id = $2
