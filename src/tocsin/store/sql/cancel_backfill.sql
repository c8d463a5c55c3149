-- Call off the executions of a backfill that have not started. Runs inside the cancelling transaction.
-- Caller: BackfillStore.cancel.
-- Locks: the executions that it removes.
-- Index: executions_of_backfill.
-- Zero rows: never; one row says how many were called off.
WITH ended AS (
    DELETE FROM executions e USING never_started('cancelled', 'backfill cancelled') AS ending
    WHERE e.cell = $1 AND e.backfill_id = $2 AND e.started_at IS NULL
    RETURNING e.*, ending.*
), kept AS (
    \ir move_to_history.sql
)
SELECT count(*)::integer AS cancelled FROM ended
