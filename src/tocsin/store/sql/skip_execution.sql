-- Skip the next fire that is planned already. Runs inside the transaction of skip-next, with the job locked.
-- Caller: Firing.skip_next.
-- Locks: the execution that it removes.
-- Index: executions_pkey, one range of the job.
-- Zero rows: none is planned.
WITH ended AS (
    DELETE FROM executions e USING never_started('skipped', 'skip_next') AS ending
    WHERE e.cell = $1 AND e.job_id = $2 AND e.fire_at = (
        SELECT min(fire_at) FROM executions
        WHERE cell = $1 AND job_id = $2 AND started_at IS NULL AND attempt = 1 AND cause = 'schedule')
      AND e.started_at IS NULL
    RETURNING e.*, ending.*
)
\ir move_to_history.sql
RETURNING fire_at
