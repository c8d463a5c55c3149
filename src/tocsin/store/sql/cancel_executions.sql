-- Call off whatever of a job has not started. Called inside the cancelling transaction, with the rows held. A row that
-- `start` reached first is left to `ask_to_stop`.
-- Returns how many were called off that were never called, and how many that waited for another attempt.
WITH gone AS (
    DELETE FROM executions
    WHERE cell = $1 AND job_id = $2 AND ($3::timestamptz IS NULL OR fire_at = $3) AND started_at IS NULL
    RETURNING *
), kept AS (
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,
                         finished_at, attempt, attempts, reason, origin_fire_at, backfill_id, waits, late_for)
    SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'cancelled', due_at, run_at,
           tocsin_now(), attempt, attempts, $4, origin_fire_at, backfill_id, waits, late_for
    FROM gone
)
SELECT count(*) FILTER (WHERE attempt = 1)::integer AS cancelled,
       count(*) FILTER (WHERE attempt > 1)::integer AS not_retried
FROM gone
