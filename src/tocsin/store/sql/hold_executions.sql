-- Take a paused job's planned fires back out of the queue. Called inside the pausing transaction.
-- Locks: the job's live rows. Executions that started, or are between attempts, go on. The earliest fire time
-- taken back becomes the cursor again.
DELETE FROM executions
WHERE cell = $1 AND job_id = $2 AND started_at IS NULL AND attempt = 1 AND cause IN ('schedule', 'catch_up')
RETURNING fire_at
