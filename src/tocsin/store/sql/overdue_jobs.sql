-- Recurring jobs of a tenant that were not planned although they were due at $2, the oldest first; $3 at
-- most.
-- Caller: StatsStore.load.
-- Locks: nothing.
-- Index: jobs_next_of_tenant, so that another tenant's overdue jobs cost nothing.
-- Zero rows: all is planned.
SELECT j.id, j.name, j.next_fire_at FROM jobs j
WHERE j.tenant_id = $1 AND j.state = 'active' AND j.kind = 'recurring' AND j.next_fire_at < $2
ORDER BY j.next_fire_at LIMIT $3
