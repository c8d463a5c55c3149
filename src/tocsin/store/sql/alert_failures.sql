-- Jobs of tenants ($1) whose latest executions failed for good $4 times in a row or more, the last of them
-- from $2 on and none in the queue $3. The newest $5 dead letters of each tenant name the jobs, $6 at most;
-- of each job the latest fire times are read, four for each failure that is asked for. Skips and the like
-- tell nothing and are passed over.
-- Caller: AlertSources.failures.
-- Locks: nothing.
-- Index: history_dead_letters, history_dead, history_of_job.
-- Zero rows: no job fails again and again.
SELECT t.id AS tenant_id, j.job_id, f.failed, j.error
FROM unnest($1::integer[]) AS t (id)
CROSS JOIN LATERAL (
    SELECT l.job_id, (array_agg(left(l.reason, 300) ORDER BY l.finished_at DESC))[1] AS error
    FROM (
        SELECT h.job_id, h.reason, h.finished_at FROM history h
        WHERE h.tenant_id = t.id AND h.state = 'dead' AND h.discarded_at IS NULL AND h.finished_at >= $2 AND h.queue <> $3
        ORDER BY h.finished_at DESC LIMIT $5
    ) AS l
    GROUP BY 1 ORDER BY max(l.finished_at) DESC LIMIT $6
) AS j
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS failed
    FROM (
        SELECT h.state, bool_or(h.state = 'succeeded') OVER (ORDER BY h.finished_at DESC, h.fire_at DESC) AS broken
        FROM (
            SELECT h.state, h.finished_at, h.fire_at FROM history h
            WHERE h.cell = $7 AND h.job_id = j.job_id ORDER BY h.fire_at DESC LIMIT 4 * $4
        ) AS h
        WHERE h.state IN ('succeeded', 'dead')
    ) AS ended
    WHERE ended.state = 'dead' AND NOT ended.broken
) AS f
WHERE f.failed >= $4
