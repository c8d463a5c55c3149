-- What of a tenant's is due and waits. One probe per lane, each bounded by $4, so that its cost does not grow
-- with the backlog.
-- Caller: StatsStore.load.
-- Locks: nothing.
-- Index: executions_ready.
-- Zero rows: never; always one row.
SELECT coalesce(sum(least(waiting.number, $4)), 0)::integer AS number, coalesce(bool_or(waiting.number > $4), false) AS capped,
       min(waiting.oldest) AS oldest
FROM (SELECT queue, priority, route FROM lanes WHERE cell = $1 AND tenant_id = $2) AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS number, min(e.run_at) AS oldest FROM (
        SELECT e.run_at FROM executions e
        WHERE e.cell = $1 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = $2 AND e.route = l.route
          AND e.claim_token IS NULL AND e.run_at <= $3
        ORDER BY e.run_at LIMIT $4 + 1) AS e
) AS waiting
