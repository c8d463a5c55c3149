-- Let live executions of a job go by the route of the job's new target. One that is running goes on as it is;
-- should it be tried again, a worker that serves the new route finds it. Runs inside its transaction, with
-- the job's executions held.
-- Caller: changing._write_definition.
-- Locks: the executions whose route changes; the lanes that they enter, against being removed.
-- Index: executions_pkey.
-- Zero rows: it returns none.
WITH moved AS (
    UPDATE executions e SET route = $3 WHERE e.cell = $1 AND e.job_id = $2 AND e.route <> $3
    RETURNING e.cell, e.queue, e.priority, e.tenant_id, e.route
)
INSERT INTO lanes (cell, queue, priority, tenant_id, route)
SELECT DISTINCT cell, queue, priority, tenant_id, route FROM moved ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (cell, queue, priority, tenant_id, route) DO UPDATE SET used_at = tocsin_now()
