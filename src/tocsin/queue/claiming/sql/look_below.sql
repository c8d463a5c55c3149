-- The first ready execution of each lane in a stretch below its low mark.
-- Caller: Looking.look_below.
-- Locks: nothing.
-- Index: executions_ready, one range per lane. While a transaction is held open the search walks dead entries
-- there, and may take long.
-- Zero rows: nothing was left behind.
SELECT s.queue, s.priority, s.tenant_id, s.route, n.run_at
FROM unnest(:queues::text[], :priorities::smallint[], :tenant_ids::integer[], :routes::text[], :begins::timestamptz[],
            :ends::timestamptz[]) AS s (queue, priority, tenant_id, route, begins, ends)
CROSS JOIN LATERAL (
    SELECT e.run_at FROM executions e
    WHERE e.cell = :cell AND e.queue = s.queue AND e.priority = s.priority AND e.tenant_id = s.tenant_id
      AND e.route = s.route AND e.claim_token IS NULL AND e.run_at >= s.begins AND e.run_at < s.ends
    ORDER BY e.run_at
    LIMIT 1
) AS n
