-- Ask running executions of a job to stop. The worker hears it by notice at once, or at its next heartbeat.
-- Caller: cancelling._call_off, executions._called_off.
-- Locks: the rows; inside the cancelling transaction they are held already (hold_executions).
-- Index: executions_pkey, one range of the job.
-- Zero rows: nothing of it runs.
UPDATE executions SET cancel_requested = true, cancel_reason = $4
WHERE cell = $1 AND job_id = $2 AND ($3::timestamptz IS NULL OR fire_at = $3) AND started_at IS NOT NULL
RETURNING fire_at
