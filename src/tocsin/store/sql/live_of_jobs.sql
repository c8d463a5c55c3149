-- Live executions of a page of jobs with fire times from $4 to $5, $6 of each job at most.
-- Caller: TimelineStore.live.
-- Locks: nothing.
-- Index: executions_pkey, one range per job.
-- Zero rows: nothing is planned or runs.
SELECT r.* FROM unnest($2::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT e.job_id, e.fire_at, e.due_at, e.started_at, e.attempt, e.cause
    FROM executions e WHERE e.cell = $1 AND e.job_id = wanted.id AND e.tenant_id = $3 AND e.fire_at >= $4 AND e.fire_at < $5
    ORDER BY e.fire_at LIMIT $6) AS r
