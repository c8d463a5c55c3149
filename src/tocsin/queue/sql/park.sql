-- Put claims back until they may start: at a reserved instant of their rate, or when a slot may be free.
-- Called by Gate; fenced by token. What has started is not put back. It came in time, and waits because its job asks for that:
-- however long it takes, it will not have been missed.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, deadline_at = NULL, run_at = greatest(p.run_at, tocsin_now()),
    waits_for = $6, late_for = NULL, missed_after = NULL,
    waits = further_wait(e.waits, e.late_for, e.run_at, $6, tocsin_now())
FROM (
    SELECT $1::smallint AS cell, g.*
    FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::timestamptz[])
        AS g (job_id, fire_at, token, run_at) OFFSET 0
) AS p
WHERE e.cell = ANY (ARRAY[p.cell]) AND e.job_id = p.job_id AND e.fire_at = p.fire_at
  AND e.claim_token IS NOT DISTINCT FROM p.token
  AND e.started_at IS NULL
