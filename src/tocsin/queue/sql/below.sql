-- The first ready execution of each lane in a stretch below its floor. Called by PostgresQueue.look_below.
-- Locks nothing. Index: executions_ready, one range per lane. While somebody holds a transaction open it walks what is dead
-- there, and may take long.
-- Zero rows: nothing was left behind.
SELECT s.queue, s.priority, s.tenant_id, n.run_at
FROM unnest($2::text[], $3::smallint[], $4::integer[], $5::timestamptz[], $6::timestamptz[])
    AS s (queue, priority, tenant_id, begins, ends)
CROSS JOIN LATERAL (
    SELECT e.run_at FROM executions e
    WHERE e.cell = $1 AND e.queue = s.queue AND e.priority = s.priority AND e.tenant_id = s.tenant_id
      AND e.claim_token IS NULL AND e.run_at >= s.begins AND e.run_at < s.ends
    ORDER BY e.run_at
    LIMIT 1
) AS n
