-- Which queues and routes live workers serve: of nodes, for all tenants (without one), and of remote
-- workers, for their own. No queue named means all of them.
-- Caller: AlertSources.served.
-- Locks: nothing.
-- Index: none; both tables hold those that are there.
-- Zero rows: no worker is there.
SELECT NULL AS tenant_id, n.queues, n.routes FROM nodes n WHERE 'worker' = ANY (n.roles) AND n.expires_at > tocsin_now()
UNION ALL
SELECT w.tenant_id, w.queues, ARRAY (SELECT 'task:' || task FROM unnest(w.tasks) AS task) FROM workers w
WHERE w.state = 'active' AND w.seen_at > tocsin_now() - 3 * w.lease
