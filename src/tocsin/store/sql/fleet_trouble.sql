-- What may be wrong with the fleet's work: claims that were not taken back, paused queues, suspended tenants,
-- limits that are near, what ended lately, what cannot be archived. Pending jobs are counted for limits of up
-- to $2.
-- Caller: PictureStore._fleet.
-- Locks: nothing.
-- Index: executions_deadline, tallies_pkey, jobs_pending; the rest is small.
-- Zero rows: never, always one.
SELECT (SELECT max(number) FROM migrations) AS migration,
       (SELECT e.deadline_at FROM executions e WHERE e.cell = $1 AND e.claim_token IS NOT NULL
        ORDER BY e.deadline_at LIMIT 1) AS first_deadline,
       (SELECT json_agg(q) FROM (
            SELECT t.name AS tenant, q.name AS queue, q.reason,
                   extract(epoch FROM tocsin_now() - q.paused_at)::float8 AS since
            FROM queues q JOIN tenants t ON t.id = q.tenant_id
            WHERE q.paused_at IS NOT NULL ORDER BY q.paused_at LIMIT 1000) AS q) AS paused,
       ARRAY (SELECT name FROM tenants WHERE state = 'suspended' ORDER BY name LIMIT 1000) AS suspended,
       (SELECT json_agg(n) FROM (
            SELECT t.name AS tenant, p.pending, t.most AS limit
            FROM (SELECT name, id, (limits -> 'pending_jobs')::integer AS most FROM tenants
                  WHERE CASE jsonb_typeof(limits -> 'pending_jobs')
                        WHEN 'number' THEN (limits -> 'pending_jobs')::numeric BETWEEN 1 AND $2::integer END LIMIT 20) AS t
            CROSS JOIN LATERAL (
                SELECT count(*)::integer AS pending FROM (
                    SELECT FROM jobs j WHERE j.tenant_id = t.id
                      AND (j.state = 'paused' OR (j.state = 'active' AND j.kind = 'recurring')) LIMIT t.most) AS j) AS p
            WHERE p.pending >= 0.9 * t.most) AS n) AS near_limits,
       (SELECT json_object_agg(e.state, e.number) FROM (
            SELECT state, sum(count)::bigint AS number FROM tallies
            WHERE tenant_id = 0 AND step_s = 10 AND bucket > tocsin_now() - interval '15 minutes' GROUP BY 1) AS e) AS ended,
       (SELECT json_agg(r) FROM (
            SELECT DISTINCT tenant_id, queues, tasks FROM workers
            WHERE state = 'active' AND seen_at >= tocsin_now() - 3 * lease LIMIT 1000) AS r) AS remote_workers,
       (SELECT json_agg(a) FROM (
            SELECT name AS table, day, failures, coalesce(trouble, '') AS trouble FROM archives
            WHERE failures > 1 ORDER BY day LIMIT 5) AS a) AS unarchived
