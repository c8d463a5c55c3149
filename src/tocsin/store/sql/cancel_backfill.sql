-- Call off the executions of a backfill that have not started. Called inside the cancelling transaction.
WITH gone AS (
    DELETE FROM executions WHERE cell = $1 AND backfill_id = $2 AND started_at IS NULL RETURNING *
), kept AS (
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,
                         finished_at, attempt, attempts, reason, origin_fire_at, backfill_id)
    SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'cancelled', due_at, run_at,
           tocsin_now(), attempt, attempts, 'backfill cancelled', origin_fire_at, backfill_id
    FROM gone
)
SELECT count(*)::integer AS cancelled FROM gone
