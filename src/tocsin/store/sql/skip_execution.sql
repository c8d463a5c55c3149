-- Skip the next fire that is planned already. Called inside the transaction of skip-next. Zero rows: none is.
WITH gone AS (
    DELETE FROM executions
    WHERE cell = $1 AND job_id = $2 AND fire_at = (
        SELECT min(fire_at) FROM executions
        WHERE cell = $1 AND job_id = $2 AND started_at IS NULL AND attempt = 1 AND cause = 'schedule')
      AND started_at IS NULL
    RETURNING *
)
INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, finished_at,
                     attempt, reason)
SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'skipped', due_at, run_at, tocsin_now(),
       attempt, 'skip_next'
FROM gone
RETURNING fire_at
