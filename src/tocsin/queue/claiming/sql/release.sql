-- Give back claims that were not started. Runs when a worker drains. run_at is brought up to now at least:
-- the lanes' low marks rely on nothing entering the queue below them.
-- Caller: Claiming.release.
-- Locks: the rows, in the order of the batch; fenced by token.
-- Index: executions_pkey.
-- Zero rows: the claims had passed to other workers.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, run_at = greatest(e.run_at, tocsin_now())
FROM (
    SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[])
        AS g (job_id, fire_at, token) OFFSET 0
) AS r
WHERE e.cell = ANY (ARRAY[r.cell]) AND e.job_id = r.job_id AND e.fire_at = r.fire_at
  AND e.claim_token IS NOT DISTINCT FROM r.token
  AND e.started_at IS NULL
RETURNING true
