-- Give back claims that were not started. Called by PostgresQueue.release when a worker drains.
-- run_at is brought up to now at least, for the lane floors.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, deadline_at = NULL, run_at = greatest(e.run_at, tocsin_now())
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
        AS g (job_id, fire_at, token) OFFSET 0
) AS r
WHERE e.cell = ANY (ARRAY[r.cell]) AND e.job_id = r.job_id AND e.fire_at = r.fire_at
  AND e.claim_token IS NOT DISTINCT FROM r.token
  AND e.started_at IS NULL
RETURNING true
