-- One-offs of a tenant that are due from $3 to $4, by buckets of $5 and queue, of the soonest $6 of each
-- lane. Beyond the horizon of planning nothing else is queued.
-- Caller: ForecastStore.one_offs.
-- Locks: nothing.
-- Index: executions_ready, one range per lane.
-- Zero rows: none is queued.
SELECT date_bin($5::interval, e.run_at, $3::timestamptz) AS at, l.queue, count(*)::integer AS number
FROM (SELECT queue, priority, route FROM lanes WHERE cell = $1 AND tenant_id = $2) AS l
CROSS JOIN LATERAL (
    SELECT e.run_at FROM executions e
    WHERE e.cell = $1 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = $2
      AND e.route = l.route AND e.claim_token IS NULL AND e.run_at >= $3 AND e.run_at < $4
    ORDER BY e.run_at LIMIT $6) AS e
GROUP BY 1, 2
