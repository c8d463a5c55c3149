-- Recurring jobs of a tenant by the first fire time that is not planned yet and lies before $3; $2 at most.
-- Caller: StatsStore.upcoming.
-- Locks: nothing.
-- Index: jobs_next_of_tenant.
-- Zero rows: no recurring job is active.
SELECT j.id, j.name, j.next_fire_at FROM jobs j
WHERE j.tenant_id = $1 AND j.state = 'active' AND j.kind = 'recurring' AND j.next_fire_at < $3
ORDER BY j.next_fire_at LIMIT $2
