-- Every lane of a cell and when its next execution is due. Called by PostgresQueue.peek, about once a second.
-- Locks nothing. Index: executions_ready, one probe per lane from its floor; what is due until $6 is counted, up to $7,
-- to see a herd coming. Paused queues are left out.
SELECT l.queue, l.priority, l.tenant_id, t.weight, n.run_at, (t.limits ->> 'in_flight')::integer AS in_flight,
       (t.limits ->> 'fires_per_second')::float8 AS fires_per_second,
       n.run_at <= $6 AND $7 = (
           SELECT count(*) FROM (
               SELECT FROM executions e
               WHERE e.cell = $1 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id
                 AND e.claim_token IS NULL AND e.run_at >= n.run_at AND e.run_at <= $6
               LIMIT $7
           ) AS near
       ) AS crowded
FROM lanes l
JOIN tenants t ON t.id = l.tenant_id AND t.state = 'active'
LEFT JOIN unnest($2::text[], $3::smallint[], $4::integer[], $5::timestamptz[])
    AS f (queue, priority, tenant_id, floor) USING (queue, priority, tenant_id)
CROSS JOIN LATERAL (
    SELECT e.run_at FROM executions e
    WHERE e.cell = $1 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id
      AND e.claim_token IS NULL AND e.run_at >= coalesce(f.floor, '-infinity')
    ORDER BY e.run_at
    LIMIT 1
) AS n
WHERE l.cell = $1
  AND NOT EXISTS (SELECT FROM queues q WHERE q.tenant_id = l.tenant_id AND q.name = l.queue AND q.paused_at IS NOT NULL)
