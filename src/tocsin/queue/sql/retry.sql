-- Put failed executions back for another attempt. Called by PostgresQueue.settle.
-- Locks: the rows, by primary key; fenced by token. The failed attempt joins the execution's own record.
-- An execution that was asked to stop is not tried again: it is not returned, and the caller ends it.
-- run_at always lies at or after now: lane floors rely on nothing entering the queue below them.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, deadline_at = NULL, started_at = NULL,
    attempt = e.attempt + 1, waits_for = NULL, start_by = NULL, missed_after = NULL,
    waits = waits_until_called(e.waits, e.late_for, e.run_at, e.started_at,
                               to_timestamp((r.record ->> 'started_at')::bigint / 1000000.0)),
    late_for = NULL,
    run_at = greatest(r.run_at, tocsin_now()),
    attempts = coalesce(e.attempts, '[]') || r.record
FROM (
    SELECT $1::smallint AS cell, g.*
    FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::timestamptz[], $6::jsonb[])
        WITH ORDINALITY AS g (job_id, fire_at, token, run_at, record, place) OFFSET 0
) AS r
WHERE e.cell = ANY (ARRAY[r.cell]) AND e.job_id = r.job_id AND e.fire_at = r.fire_at
  AND e.claim_token IS NOT DISTINCT FROM r.token
  AND e.started_at IS NOT NULL AND NOT e.cancel_requested
RETURNING r.place::integer - 1 AS place
