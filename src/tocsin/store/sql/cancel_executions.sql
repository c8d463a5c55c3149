-- Call off whatever of a job has not started, or with $3 that one execution. Runs inside the cancelling
-- transaction, with the rows held (hold_executions). A row that `start` reached first is left to ask_to_stop.
-- Caller: Cancelling.cancel_queued, cancelling._call_off, executions._called_off.
-- Locks: the executions that it removes.
-- Index: executions_pkey, one range of the job.
-- Zero rows: never; one row says how many were called off that were never called, and how many that waited
-- for another attempt.
WITH ended AS (
    DELETE FROM executions e USING never_started('cancelled', $4) AS ending
    WHERE e.cell = $1 AND e.job_id = $2 AND ($3::timestamptz IS NULL OR e.fire_at = $3) AND e.started_at IS NULL
    RETURNING e.*, ending.*
), kept AS (
    \ir move_to_history.sql
)
SELECT count(*) FILTER (WHERE attempt = 1)::integer AS cancelled,
       count(*) FILTER (WHERE attempt > 1)::integer AS not_retried
FROM ended
