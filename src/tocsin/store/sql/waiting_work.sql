-- What waits in each lane, of $3 lanes at most and of the first $2 executions of each: the cost does not grow
-- with the backlog.
-- Caller: PictureStore._fleet.
-- Locks: nothing.
-- Index: executions_ready, one range per lane.
-- Zero rows: nothing waits.
SELECT l.tenant_id, t.name AS tenant, l.queue, l.route, min(w.first_at) AS first_at, sum(w.sampled)::integer AS sampled,
       sum(w.retrying)::integer AS retrying, sum(w.host)::integer AS host, sum(w.version)::integer AS version,
       sum(w.slot)::integer AS slot
FROM (SELECT tenant_id, queue, priority, route FROM lanes WHERE cell = $1 LIMIT $3) AS l
JOIN tenants t ON t.id = l.tenant_id
CROSS JOIN LATERAL (
    SELECT min(e.run_at) FILTER (WHERE e.waits_for IS NULL) AS first_at, count(*) AS sampled,
           count(*) FILTER (WHERE e.attempt > 1) AS retrying, count(*) FILTER (WHERE e.waits_for = 'host') AS host,
           count(*) FILTER (WHERE e.waits_for = 'version') AS version, count(*) FILTER (WHERE e.waits_for = 'slot') AS slot
    FROM (SELECT e.run_at, e.attempt, e.waits_for FROM executions e
          WHERE e.cell = $1 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id AND e.route = l.route
            AND e.claim_token IS NULL
          ORDER BY e.run_at LIMIT $2) AS e
) AS w
WHERE w.sampled > 0
GROUP BY 1, 2, 3, 4
