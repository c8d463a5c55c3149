-- Give back claims that were not started. Called by PostgresQueue.release when a worker drains.
-- run_at is brought up to now at least, for the lane floors.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, deadline_at = NULL, run_at = greatest(e.run_at, tocsin_now())
FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[]) AS r (job_id, fire_at, token)
WHERE e.cell = $1 AND e.job_id = r.job_id AND e.fire_at = r.fire_at AND e.claim_token = r.token
  AND e.started_at IS NULL
RETURNING true
