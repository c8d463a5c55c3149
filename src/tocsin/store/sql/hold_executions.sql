-- Lock what a cancellation decides about: every execution of a job, or with $3 that one and the one that has the job's
-- floor. Called before `cancel_executions` and whatever else takes executions away: with the rows held, each is either called
-- off or asked to stop, and none is put back for a retry between two statements. A worker that skips an execution for the
-- sake of the one that has the floor waits here too.
-- Locks: the rows, in the order that all statements keep: the one that has the floor, then by fire time. Zero rows: nothing
-- is live.
SELECT FROM executions
WHERE cell = $1 AND job_id = $2 AND ($3::timestamptz IS NULL OR fire_at = $3 OR has_floor)
ORDER BY has_floor DESC, fire_at
FOR UPDATE
