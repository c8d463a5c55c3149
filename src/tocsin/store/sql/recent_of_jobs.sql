-- The last $4 finished executions of each of a page of jobs, latest fire time first.
-- Caller: ExecutionStore.recent.
-- Locks: nothing.
-- Index: history_of_job, one range per job.
-- Zero rows: none has run.
SELECT r.* FROM unnest($2::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT h.job_id, h.fire_at, h.state, h.reason, h.due_at, h.started_at, h.finished_at, h.attempt, h.attempts IS NOT NULL AS retried
    FROM history h WHERE h.cell = $1 AND h.job_id = wanted.id AND h.tenant_id = $3
    ORDER BY h.fire_at DESC LIMIT $4) AS r
