-- Take a job's planned fires back out of the queue: all that have not started (pausing), or only those still
-- to come (an update). Runs inside the transaction that changes the job. Executions that started, or are
-- between attempts, go on. The earliest fire time taken back becomes the cursor again.
-- Caller: replanning.take_back.
-- Locks: the executions that it removes.
-- Index: executions_pkey, one range of the job.
-- Zero rows: nothing was planned.
DELETE FROM executions
WHERE cell = $1 AND job_id = $2 AND started_at IS NULL AND attempt = 1 AND cause IN ('schedule', 'catch_up')
  AND fire_at > $3
RETURNING fire_at
