-- Lanes of tenants ($1) or, without $1, of all, in which something was due before $2 and waits: since when, a
-- job of it, how many, and how many of these are fires that have passed their grace by $6. The first $3 of a
-- lane are read, and $4 lanes told. What waits for what its own job asks for is passed over: workers put it
-- off again and again, so little of it is due. Lanes of paused queues and of suspended tenants wait because a
-- user wants it.
-- Caller: AlertSources.waiting.
-- Locks: nothing.
-- Index: executions_ready, one range per lane.
-- Zero rows: nothing waits.
SELECT l.tenant_id, l.queue, l.route, w.*
FROM lanes l
JOIN tenants t ON t.id = l.tenant_id AND t.state = 'active'
LEFT JOIN queues q ON q.tenant_id = l.tenant_id AND q.name = l.queue
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS number, min(e.run_at) AS oldest, (array_agg(e.job_id ORDER BY e.run_at))[1] AS job_id,
           count(*) FILTER (WHERE e.missed_after < $6)::integer AS missed,
           (array_agg(e.job_id ORDER BY e.run_at) FILTER (WHERE e.missed_after < $6))[1] AS missed_job
    FROM (
        SELECT e.run_at, e.job_id, e.missed_after FROM executions e
        WHERE e.cell = $5 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id
          AND e.route = l.route AND e.claim_token IS NULL AND e.run_at < $2
          AND coalesce(e.waits_for, 'worker') NOT IN ('rate', 'slot', 'turn', 'host', 'task')
        ORDER BY e.run_at LIMIT $3
    ) AS e
) AS w
WHERE l.cell = $5 AND ($1::integer[] IS NULL OR l.tenant_id = ANY ($1)) AND q.paused_at IS NULL AND w.number > 0
  AND l.queue <> $7
ORDER BY w.oldest LIMIT $4
