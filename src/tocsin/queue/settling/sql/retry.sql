-- Put failed executions back for another attempt. The failed attempt joins the execution's own record. An
-- execution that was asked to stop is not tried again: it is not returned, and the caller ends it. run_at
-- lies at or after now: the lanes' low marks rely on nothing entering the queue below them.
-- Caller: Settling.retry.
-- Locks: the rows, in the order of the batch; fenced by token.
-- Index: executions_pkey.
-- Zero rows: every claim was lost, or asked to stop.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, started_at = NULL,
    attempt = e.attempt + 1, waits_for = NULL, start_by = NULL, missed_after = NULL,
    waits = waits_until_called(e.waits, e.late_for, e.run_at, e.started_at,
                               to_timestamp((r.record ->> 'started_at')::bigint / 1000000.0)),
    late_for = NULL,
    run_at = greatest(r.run_at, tocsin_now()),
    attempts = coalesce(e.attempts, '[]') || r.record
FROM (
    SELECT :cell::smallint AS cell, g.*
    FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[], :run_ats::timestamptz[], :records::jsonb[])
        WITH ORDINALITY AS g (job_id, fire_at, token, run_at, record, place) OFFSET 0
) AS r
WHERE e.cell = ANY (ARRAY[r.cell]) AND e.job_id = r.job_id AND e.fire_at = r.fire_at
  AND e.claim_token IS NOT DISTINCT FROM r.token
  AND e.started_at IS NOT NULL AND NOT e.cancel_requested
RETURNING r.place::integer - 1 AS place
