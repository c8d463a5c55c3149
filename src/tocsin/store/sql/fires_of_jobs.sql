-- What became of the fires of a page of jobs from $4 to $5, the latest $6 of each job, from history.
-- Caller: TimelineStore.fires.
-- Locks: nothing.
-- Index: history_of_job, one range per job.
-- Zero rows: nothing ended.
SELECT r.* FROM unnest($2::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT h.job_id, h.fire_at, h.state, h.reason, h.due_at, h.started_at, h.finished_at, h.fire_until, h.fire_count, h.cause,
           h.attempts IS NOT NULL AS retried
    FROM history h WHERE h.cell = $1 AND h.job_id = wanted.id AND h.tenant_id = $3 AND h.fire_at >= $4 AND h.fire_at < $5
    ORDER BY h.fire_at DESC LIMIT $6) AS r
