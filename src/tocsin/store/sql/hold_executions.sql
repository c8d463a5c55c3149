-- Lock what a cancellation decides about: every execution of a job, or with $3 that one and the one that
-- holds the job's turn. Runs before cancel_executions and whatever else takes executions away: with the rows
-- held, each is either called off or asked to stop, and none is put back for a retry between two statements.
-- A worker that skips an execution for the sake of the one that holds the turn waits here too.
-- Caller: executions.hold_executions.
-- Locks: the rows, in the order that all statements keep: the one that holds the turn, then by fire time.
-- Index: executions_pkey, one range of the job.
-- Zero rows: nothing of it is live.
SELECT FROM executions
WHERE cell = $1 AND job_id = $2 AND ($3::timestamptz IS NULL OR fire_at = $3 OR has_turn)
ORDER BY has_turn DESC, fire_at
FOR UPDATE
