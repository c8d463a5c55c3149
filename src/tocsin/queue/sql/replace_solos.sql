-- Make room for newer executions: the one that has the floor is asked to stop if it runs, and called off if it
-- waits for another attempt. Called by PostgresQueue.start_solo inside its transaction.
WITH holder AS (
    SELECT s.job_id, s.fire_at FROM solos s
    WHERE s.cell = $1 AND s.job_id = ANY ($2::uuid[])
), asked AS (
    UPDATE executions e SET cancel_requested = true, cancel_reason = 'replaced by a newer execution'
    FROM holder h WHERE e.cell = $1 AND e.job_id = h.job_id AND e.fire_at = h.fire_at AND e.claim_token IS NOT NULL
), gone AS (
    DELETE FROM executions e
    USING holder h WHERE e.cell = $1 AND e.job_id = h.job_id AND e.fire_at = h.fire_at AND e.claim_token IS NULL
    RETURNING e.*
), kept AS (
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,
                         finished_at, attempt, attempts, reason, origin_fire_at, backfill_id)
    SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'cancelled', due_at, run_at, tocsin_now(),
           attempt, attempts, 'replaced by a newer execution', origin_fire_at, backfill_id
    FROM gone
)
SELECT pg_notify('tocsin', 'stop')
