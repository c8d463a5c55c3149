-- Whether an answer of a target still counts: its claim is still held, and the job still has that target.
-- Runs with the job locked.
-- Caller: Pausing.pause_gone.
-- Locks: the execution, so that its claim cannot pass on meanwhile.
-- Index: executions_pkey, jobs_pkey.
-- Zero rows: the answer does not count any more.
SELECT true AS counts
FROM executions e JOIN jobs j ON j.cell = e.cell AND j.id = e.job_id
WHERE e.cell = $1 AND e.job_id = $2 AND e.fire_at = $3 AND e.claim_token = $4 AND j.target = $5::jsonb
FOR UPDATE OF e
