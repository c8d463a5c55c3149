-- Put reclaimed executions back at once. An attempt that had started is over (its record says that the worker
-- was lost); one that had not keeps its number. Runs after `overdue` in the same transaction.
-- Caller: Reclaiming.reclaim.
-- Locks: the rows, which the transaction holds; fenced by the token that was overdue.
-- Index: executions_pkey.
-- Zero rows: it returns one per row that went back.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, started_at = NULL,
    attempt = e.attempt + CASE WHEN r.record IS NULL THEN 0 ELSE 1 END,
    start_by = CASE WHEN r.record IS NULL THEN e.start_by END,
    missed_after = CASE WHEN r.record IS NULL THEN e.missed_after END,
    waits_for = CASE WHEN r.record IS NULL THEN e.waits_for END,
    run_at = greatest(r.run_at, tocsin_now()), late_for = NULL,
    waits = CASE WHEN r.record IS NULL AND e.run_at < tocsin_now()
                 THEN further_wait(e.waits, e.late_for, e.run_at, 'worker', tocsin_now())
                 ELSE ended_waits(e.waits, e.late_for, e.run_at, e.started_at) END,
    attempts = CASE WHEN r.record IS NULL THEN e.attempts ELSE coalesce(e.attempts, '[]') || r.record END
FROM (
    SELECT :cell::smallint AS cell, g.*
    FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[], :run_ats::timestamptz[], :records::jsonb[])
        AS g (job_id, fire_at, token, run_at, record) OFFSET 0
) AS r
WHERE e.cell = ANY (ARRAY[r.cell]) AND e.job_id = r.job_id AND e.fire_at = r.fire_at
  AND e.claim_token IS NOT DISTINCT FROM r.token
  AND e.deadline_at <= tocsin_now()
RETURNING true
