-- Record the end of a paused one-off, whose execution was taken back when it was paused. Runs inside the
-- cancelling transaction, before the job forgets its fire time.
-- Caller: Cancelling.cancel.
-- Locks: nothing; the job is locked already.
-- Index: jobs_pkey.
-- Zero rows: never read; the row goes to history.
INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, finished_at,
                     attempt, reason)
SELECT cell, id, next_fire_at, tenant_id, queue, priority, 'schedule', 'cancelled', next_fire_at, next_fire_at,
       tocsin_now(), 1, $3
FROM jobs WHERE cell = $1 AND id = $2
