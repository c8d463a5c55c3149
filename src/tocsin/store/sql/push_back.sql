-- Let the execution that holds a unique key, and has not started, run at another time with what its job was
-- given last. A worker that claimed it ahead finds its token gone. Its fire time, and so its identity, stays.
-- Caller: unique_keys._push_back.
-- Locks: the execution; its job is locked already.
-- Index: executions_pkey.
-- Zero rows: it has started, or is between attempts.
WITH moved AS (
    UPDATE executions e
    SET due_at = greatest(:due_at::timestamptz, tocsin_now()), run_at = greatest(:due_at::timestamptz, tocsin_now()),
        start_by = :start_by, limit_key = :limit_key,
        waits_for = NULL, claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL
    WHERE e.cell = :cell AND e.job_id = :job_id AND e.unique_key = :key AND e.started_at IS NULL AND e.attempt = 1
    RETURNING e.fire_at, e.due_at
), said AS (
    UPDATE jobs j
    SET schedule = :schedule, target = :target, policies = :policies, version = j.version + 1, updated_at = tocsin_now()
    FROM moved WHERE j.cell = :cell AND j.id = :job_id
)
SELECT fire_at, due_at FROM moved
