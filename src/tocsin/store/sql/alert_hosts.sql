-- Hosts and brokers that executions of tenants ($1) or, without $1, of all, have waited for since before $2:
-- how many wait, since when, and a job of them. Of a lane the first $3 are read that are due, and the next $3
-- of those put off, so that no backlog hides them; $4 are told.
-- Caller: AlertSources.hosts.
-- Locks: nothing.
-- Index: executions_ready, two ranges per lane; jobs_pkey or jobs_of_tenant.
-- Zero rows: no execution waits for a host.
SELECT l.tenant_id, h.host, count(*)::integer AS number, min(e.due_at) AS oldest,
       (array_agg(e.job_id ORDER BY e.due_at))[1] AS job_id
FROM lanes l
JOIN tenants t ON t.id = l.tenant_id AND t.state = 'active'
LEFT JOIN queues q ON q.tenant_id = l.tenant_id AND q.name = l.queue
CROSS JOIN LATERAL (
    (SELECT e.job_id, e.due_at, e.waits_for FROM executions e
     WHERE e.cell = $5 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id
       AND e.route = l.route AND e.claim_token IS NULL AND e.run_at <= tocsin_now()
     ORDER BY e.run_at LIMIT $3)
    UNION ALL
    (SELECT e.job_id, e.due_at, e.waits_for FROM executions e
     WHERE e.cell = $5 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id
       AND e.route = l.route AND e.claim_token IS NULL AND e.run_at > tocsin_now()
     ORDER BY e.run_at LIMIT $3)
) AS e
CROSS JOIN LATERAL (
    SELECT j.target FROM jobs j WHERE j.cell = $5 AND j.tenant_id = l.tenant_id AND j.id = e.job_id OFFSET 0
) AS j
CROSS JOIN LATERAL (
    SELECT coalesce(lower(substring(j.target ->> 'url' FROM '^[^:]+://(?:[^/?#]*@)?([^/?#]+)')),
                    j.target ->> 'address', 'connection ' || (j.target ->> 'connection'), l.route) AS host
) AS h
WHERE l.cell = $5 AND ($1::integer[] IS NULL OR l.tenant_id = ANY ($1)) AND q.paused_at IS NULL
  AND e.waits_for = 'host' AND e.due_at < $2 AND l.queue <> $6
GROUP BY 1, 2
ORDER BY oldest LIMIT $4
