-- Give a locked job a new cursor, and write what its plan fires and skips. Runs inside the transactions of
-- resume and update. The job becomes active, or completed when its schedule is exhausted.
-- Caller: replanning.write_plan.
-- Locks: the job, which is locked already, and the new rows.
-- Index: jobs_pkey, executions_pkey.
-- Zero rows: never read; a fire time that is planned already stays as it is.
WITH moved AS (
    UPDATE jobs
    SET next_fire_at = :cursor, fire_count = fire_count + :fires_more, state_reason = NULL, paused_until = NULL,
        state = CASE WHEN kind = 'recurring' AND :cursor::timestamptz IS NULL THEN 'completed' ELSE 'active' END,
        version = version + 1, updated_at = tocsin_now()
    WHERE cell = :cell AND id = :job_id
    RETURNING *
), fire AS (
    SELECT m.cell, m.id, m.tenant_id, m.queue, m.policies ->> 'overlap' AS overlap,
           m.policies -> 'limit' ->> 'key' AS limit_key, route_of(m.target) AS route, f.fire_at, f.due_at, f.start_by,
           greatest(f.due_at, tocsin_now() + f.wait) AS run_at, f.late, CASE WHEN m.kind = 'recurring' THEN f.grace END AS grace,
           CASE WHEN f.late THEN :catch_up_priority::smallint ELSE m.priority END AS priority,
           CASE WHEN f.late THEN 'catch_up' ELSE 'schedule' END AS cause
    FROM unnest(:fire_ats::timestamptz[], :due_ats::timestamptz[], :waits::interval[], :late::boolean[], :start_bys::timestamptz[], :graces::interval[])
        AS f (fire_at, due_at, wait, late, start_by, grace)
    CROSS JOIN moved m
), planned AS (
    INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, start_by, cause, overlap,
                            limit_key, route, missed_after)
    SELECT cell, id, fire_at, tenant_id, queue, priority, due_at, run_at, start_by, cause, overlap, limit_key, route,
           CASE WHEN late THEN run_at ELSE due_at END + grace
    FROM fire
    ON CONFLICT DO NOTHING
)
INSERT INTO history (cell, job_id, fire_at, fire_until, fire_count, tenant_id, queue, priority, cause, state,
                     due_at, run_at, finished_at, attempt, reason)
SELECT m.cell, m.id, k.first, k.last, k.count, m.tenant_id, m.queue, m.priority, 'schedule', 'skipped',
       k.first, k.first, tocsin_now(), 1, k.reason
FROM jsonb_to_recordset(:skips::jsonb) AS k (first timestamptz, last timestamptz, count integer, reason text)
CROSS JOIN moved m
