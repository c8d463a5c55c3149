-- How things stand around queued executions of one tenant, queue and route, to explain one. What is in
-- flight is counted only for tenants that are limited in it, and only up to the limit; it walks the claims
-- of the fleet.
-- Caller: ExecutionStore.surroundings.
-- Locks: nothing.
-- Index: tenants_pkey, queues_pkey, executions_deadline, workers_of_tenant.
-- Zero rows: there is no such tenant, which cannot be for one that asks.
SELECT q.paused_at AS queue_paused_at, q.paused_by AS queue_paused_by, q.reason AS queue_pause_reason,
       q.paused_until AS queue_paused_until,
       t.state = 'suspended' AS tenant_suspended, w.running, w.workers_of_queue,
       w.workers + r.workers AS workers, w.saturated + r.saturated AS saturated, l.last_worker, l.last_seen_at,
       (t.limits ->> 'in_flight')::integer AS in_flight_limit, (t.limits ->> 'fires_per_second')::float8 AS fires_per_second,
       CASE WHEN t.limits ? 'in_flight' THEN (
           SELECT count(*) FROM (
               SELECT FROM executions e WHERE e.cell = $1 AND e.tenant_id = t.id AND e.claim_token IS NOT NULL
               LIMIT (t.limits ->> 'in_flight')::integer) AS claimed)::integer END AS in_flight
FROM tenants t
LEFT JOIN queues q ON q.tenant_id = t.id AND q.name = $3 AND q.paused_at IS NOT NULL
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS running, (count(*) FILTER (WHERE n.serves))::integer AS workers,
           (count(*) FILTER (WHERE n.serves_queue))::integer AS workers_of_queue,
           (count(*) FILTER (WHERE n.serves AND (jsonb_path_query_first(
                n.stats, '$[*] ? (@[0] == "tocsin_worker_saturation")[3][0][2]'))::float8 >= 1))::integer AS saturated
    FROM (SELECT stats, s.serves_queue, s.serves_queue AND $4 = ANY (routes) AS serves
          FROM nodes CROSS JOIN LATERAL (
              SELECT cardinality(queues) = 0 OR $3 = ANY (queues) AS serves_queue) AS s
          WHERE 'worker' = ANY (roles) AND expires_at > tocsin_now()) AS n
) AS w
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS workers, (count(*) FILTER (WHERE m.running >= m.capacity))::integer AS saturated
    FROM workers m
    WHERE m.tenant_id = t.id AND m.state = 'active' AND m.seen_at >= tocsin_now() - 3 * m.lease
      AND $3 = ANY (m.queues) AND $4 = ANY (SELECT 'task:' || unnest(m.tasks))
) AS r
LEFT JOIN LATERAL (
    SELECT concat_ws(' ', m.name, nullif(concat_ws(' ', m.app, m.revision), '')) AS last_worker, m.seen_at AS last_seen_at
    FROM workers m
    WHERE m.tenant_id = t.id AND $3 = ANY (m.queues) AND $4 = ANY (SELECT 'task:' || unnest(m.tasks))
    ORDER BY m.seen_at DESC LIMIT 1
) AS l ON true
WHERE t.id = $2
