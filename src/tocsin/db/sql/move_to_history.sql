-- Not a statement: how a live execution becomes history, for every statement that ends executions. Such a
-- statement deletes the rows as `ended`: all columns of `executions`, and those of the type `ending` that say
-- how they ended. Nothing ends before it began, even if the database's clock was set meanwhile and the worker
-- has not heard of it. `fired_at` is when the call went out, if that was not when the execution started; a
-- second between the two was spent in line for the host. `settled`: the holder of the claim ended it, and may
-- ask for that by its token.
-- Caller: cancel_backfill.sql, cancel_executions.sql, collapse_waiting.sql, decide_missed.sql, finish.sql,
-- replace_older.sql, skip_execution.sql, succeed.sql.
INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at,
                     finished_at, attempt, attempts, outcome, reason, error_fingerprint, claim_token, node_id, worker_id,
                     job_version, origin_fire_at, backfill_id, waits, late_for)
SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, coalesce(fired_at, started_at),
       greatest(started_at, fired_at, finished_at), attempt, attempts, outcome, reason, error_fingerprint,
       CASE WHEN settled THEN claim_token END, CASE WHEN settled THEN node_id END, CASE WHEN settled THEN worker_id END,
       job_version, origin_fire_at, backfill_id,
       CASE WHEN fired_at > started_at + interval '1 second'
            THEN waits_until_called(waits, late_for, run_at, started_at, fired_at) ELSE waits END,
       CASE WHEN fired_at > started_at + interval '1 second' THEN NULL ELSE late_for END
FROM ended
