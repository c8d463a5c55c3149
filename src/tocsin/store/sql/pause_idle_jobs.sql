-- Pause those of several locked jobs that are active, recurring, and have nothing live: there is nothing to
-- take back, and the cursor stays where it is.
-- Caller: Pausing.pause_idle.
-- Locks: the jobs, which are held already.
-- Index: jobs_pkey, executions_pkey.
-- Zero rows: none is idle. Else a row for each that was paused.
UPDATE jobs j
SET state = 'paused', state_reason = $4, paused_until = NULL, version = j.version + 1, updated_at = tocsin_now()
WHERE j.cell = $1 AND j.id = ANY ($3::uuid[]) AND j.tenant_id = $2 AND j.kind = 'recurring' AND j.state = 'active'
  AND NOT EXISTS (SELECT FROM executions e WHERE e.cell = $1 AND e.job_id = j.id OFFSET 0)
RETURNING j.id
