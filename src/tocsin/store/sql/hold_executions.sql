-- Lock what a cancellation decides about: every execution of a job, or with $3 that one and the one that has the job's
-- floor. Called inside the cancelling transaction before `cancel_executions` and `ask_to_stop`: with the rows held, each
-- is either called off or asked to stop, and none is put back for a retry between the two statements. A worker that
-- skips an execution for the sake of the one that has the floor waits here too.
-- Locks: the rows, by primary key and in its order. Zero rows: nothing is live.
SELECT FROM executions
WHERE cell = $1 AND job_id = $2 AND ($3::timestamptz IS NULL OR fire_at = $3 OR has_floor)
ORDER BY fire_at FOR UPDATE
