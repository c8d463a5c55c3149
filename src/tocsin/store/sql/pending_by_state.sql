-- How many jobs of a tenant are paused, and how many recurring ones are active; $2 of each at most.
-- Caller: StatsStore.load.
-- Locks: nothing.
-- Index: jobs_paused_of_tenant, jobs_next_of_tenant. Each count follows the order of its index.
-- Zero rows: never; always one row.
SELECT (SELECT count(*) FROM (SELECT FROM jobs j WHERE j.tenant_id = $1 AND j.state = 'paused'
                              ORDER BY j.id LIMIT $2) AS p)::integer AS paused,
       (SELECT count(*) FROM (SELECT FROM jobs j WHERE j.tenant_id = $1 AND j.state = 'active' AND j.kind = 'recurring'
                              ORDER BY j.next_fire_at LIMIT $2) AS a)::integer AS active
