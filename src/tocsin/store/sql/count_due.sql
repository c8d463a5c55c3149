-- Called by StatsStore.load: what of a tenant's is due and waits. Locks nothing; one probe of executions_ready per lane, each
-- bounded by $4, so that its cost does not grow with the backlog. Always one row.
SELECT coalesce(sum(least(waiting.number, $4)), 0)::integer AS number, coalesce(bool_or(waiting.number > $4), false) AS capped,
       min(waiting.oldest) AS oldest
FROM (SELECT DISTINCT queue, priority FROM lanes WHERE cell = $1 AND tenant_id = $2) AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS number, min(e.run_at) AS oldest FROM (
        SELECT e.run_at FROM executions e
        WHERE e.cell = $1 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = $2
          AND e.claim_token IS NULL AND e.run_at <= $3
        ORDER BY e.run_at LIMIT $4 + 1) AS e
) AS waiting
