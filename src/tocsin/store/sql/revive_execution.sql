-- Bring a final execution back for another round of attempts: same identity, attempts continue. A job that is
-- over is changed, which keeps it from being forgotten at this moment.
-- Caller: ExecutionStore.retry.
-- Locks: the row of history that it removes, the job if it is over, the new execution.
-- Index: history_of_job, jobs_pkey, executions_pkey.
-- Zero rows: it is not final in a state that can be retried, or its job is gone.
WITH back AS (
    DELETE FROM history h
    WHERE h.cell = $1 AND h.job_id = $2 AND h.fire_at = $3 AND h.tenant_id = $4
      AND h.state IN ('dead', 'expired', 'cancelled')
      AND EXISTS (SELECT FROM jobs j WHERE j.cell = $1 AND j.id = $2 AND j.state <> 'cancelled')
    RETURNING h.*
), touched AS (
    UPDATE jobs SET updated_at = tocsin_now()
    WHERE cell = $1 AND id = $2 AND (kind = 'once' OR state <> 'active') AND EXISTS (SELECT FROM back)
)
INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, cause, attempt,
                        earlier_attempts, attempts, origin_fire_at, backfill_id, overlap, limit_key, route, waits)
SELECT cell, job_id, fire_at, tenant_id, queue, priority, due_at, tocsin_now(), cause,
       CASE WHEN started_at IS NULL THEN attempt ELSE attempt + 1 END,
       CASE WHEN started_at IS NULL THEN attempt - 1 ELSE attempt END,
       CASE WHEN started_at IS NULL THEN attempts
            ELSE coalesce(attempts, '[]') || (coalesce(outcome, '{}') || jsonb_build_object(
                'number', attempt, 'node_id', node_id,
                'started_at', (extract(epoch FROM started_at) * 1000000)::bigint,
                'finished_at', (extract(epoch FROM finished_at) * 1000000)::bigint)) END,
       origin_fire_at, backfill_id,
       (SELECT j.policies ->> 'overlap' FROM jobs j WHERE j.cell = $1 AND j.id = $2),
       (SELECT j.policies -> 'limit' ->> 'key' FROM jobs j WHERE j.cell = $1 AND j.id = $2),
       (SELECT route_of(j.target) FROM jobs j WHERE j.cell = $1 AND j.id = $2),
       ended_waits(waits, late_for, run_at, started_at)
FROM back
RETURNING fire_at
