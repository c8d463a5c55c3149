-- Dead letters of tenants ($1) that ended from $2 on, in one queue or, without $3, in all but $4, by kind of
-- error: those with at least $6. The newest $5 of each tenant are read, and $7 kinds told.
-- Caller: AlertSources.dead_letters.
-- Locks: nothing.
-- Index: history_dead_letters, history_dead. The second is for days from before the first.
-- Zero rows: nothing died.
SELECT t.id AS tenant_id, g.*
FROM unnest($1::integer[]) AS t (id)
CROSS JOIN LATERAL (
    SELECT l.error_fingerprint, count(*)::integer AS number, count(DISTINCT l.job_id)::integer AS jobs, max(l.finished_at) AS last_at,
           (array_agg(l.job_id ORDER BY l.finished_at DESC))[1] AS job_id,
           (array_agg(left(l.reason, 300) ORDER BY l.finished_at DESC))[1] AS error
    FROM (
        SELECT h.error_fingerprint, h.job_id, h.finished_at, h.reason FROM history h
        WHERE h.tenant_id = t.id AND h.state = 'dead' AND h.discarded_at IS NULL AND h.finished_at >= $2
          AND ($3::text IS NULL OR h.queue = $3) AND h.queue <> $4
        ORDER BY h.finished_at DESC LIMIT $5
    ) AS l
    GROUP BY 1 HAVING count(*) >= $6 ORDER BY 2 DESC LIMIT $7
) AS g
