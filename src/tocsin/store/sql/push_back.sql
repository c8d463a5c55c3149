-- Let the execution that holds a unique key, and has not started, run at another time with what its job was
-- given last. A worker that claimed it ahead finds its token gone. Its fire time, and so its identity, stays.
-- Caller: unique_keys._push_back.
-- Locks: the execution; its job is locked already.
-- Index: executions_pkey.
-- Zero rows: it has started, or is between attempts.
WITH moved AS (
    UPDATE executions e
    SET due_at = greatest($4, tocsin_now()), run_at = greatest($4, tocsin_now()), start_by = $5, limit_key = $6,
        waits_for = NULL, claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL
    WHERE e.cell = $1 AND e.job_id = $2 AND e.unique_key = $3 AND e.started_at IS NULL AND e.attempt = 1
    RETURNING e.fire_at, e.due_at
), said AS (
    UPDATE jobs j SET schedule = $7, target = $8, policies = $9, version = j.version + 1, updated_at = tocsin_now()
    FROM moved WHERE j.cell = $1 AND j.id = $2
)
SELECT fire_at, due_at FROM moved
