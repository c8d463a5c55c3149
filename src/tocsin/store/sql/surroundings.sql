-- How things stand around queued executions of one tenant and queue. Called by ExecutionStore.surroundings, to explain one.
-- Locks nothing. What is in flight is counted only for tenants that are limited in it, and only up to the limit; it walks
-- the claims of the fleet (index executions_deadline). Always one row.
SELECT EXISTS (SELECT FROM queues q WHERE q.tenant_id = t.id AND q.name = $3 AND q.paused_at IS NOT NULL) AS queue_paused,
       t.state = 'suspended' AS tenant_suspended, w.running, w.workers, w.saturated,
       (t.limits ->> 'in_flight')::integer AS in_flight_limit, (t.limits ->> 'fires_per_second')::float8 AS fires_per_second,
       CASE WHEN t.limits ? 'in_flight' THEN (
           SELECT count(*) FROM (
               SELECT FROM executions e WHERE e.cell = $1 AND e.tenant_id = t.id AND e.claim_token IS NOT NULL
               LIMIT (t.limits ->> 'in_flight')::integer) AS claimed)::integer END AS in_flight
FROM tenants t
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS running, (count(*) FILTER (WHERE n.serves))::integer AS workers,
           (count(*) FILTER (WHERE n.serves AND (jsonb_path_query_first(
                n.stats, '$[*] ? (@[0] == "tocsin_worker_saturation")[3][0][2]'))::float8 >= 1))::integer AS saturated
    FROM (SELECT stats, cardinality(queues) = 0 OR $3 = ANY (queues) AS serves FROM nodes
          WHERE 'worker' = ANY (roles) AND expires_at > tocsin_now()) AS n
) AS w
WHERE t.id = $2
