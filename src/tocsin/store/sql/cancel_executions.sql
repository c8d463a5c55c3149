-- Call off whatever of a job has not started, or with $3 that one execution. Runs inside the cancelling
-- transaction, with the rows held (hold_executions). A row that `start` reached first is left to ask_to_stop.
-- Caller: Cancelling.cancel_queued, cancelling._call_off, executions._called_off.
-- Locks: the executions that it removes.
-- Index: executions_pkey, one range of the job.
-- Zero rows: never; one row says how many were called off that were never called, and how many that had been:
-- they waited for another attempt, or their task had put them off. Once the list of waits is full
-- (further_wait), the latter is unknown.
WITH ended AS (
    DELETE FROM executions e USING never_started('cancelled', $4) AS ending
    WHERE e.cell = $1 AND e.job_id = $2 AND ($3::timestamptz IS NULL OR e.fire_at = $3) AND e.started_at IS NULL
    RETURNING e.*, ending.*
), kept AS (
    \ir move_to_history.sql
)
SELECT count(*) FILTER (WHERE NOT called)::integer AS cancelled, count(*) FILTER (WHERE called)::integer AS not_retried
FROM (
    SELECT attempt > 1 OR coalesce(waits @> '[{"for": "task"}]' OR jsonb_array_length(waits) >= 20, false) AS called
    FROM ended
) AS e
