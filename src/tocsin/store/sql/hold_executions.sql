-- Lock what a change decides about: every execution of these jobs, or with $3 those of the jobs at these fire
-- times and the ones that hold the jobs' turns. Runs before cancel_executions and whatever else takes
-- executions away: with the rows held, each is either called off or asked to stop, and none is put back for a
-- retry between two statements. A worker that skips an execution for the sake of the one that holds the turn
-- waits here too.
-- Caller: executions.hold_executions.
-- Locks: the rows, in the order that all statements keep: those that hold a turn, then by job and fire time.
-- Index: executions_pkey, one range per job.
-- Zero rows: nothing of it is live.
SELECT FROM executions
WHERE cell = $1 AND job_id = ANY ($2::uuid[]) AND ($3::timestamptz[] IS NULL OR fire_at = ANY ($3) OR has_turn)
ORDER BY has_turn DESC, job_id, fire_at
FOR UPDATE
