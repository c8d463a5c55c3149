-- Recurring jobs of a tenant that nobody planned although they were due at $3. One probe per shard, each
-- bounded by $4.
-- Caller: StatsStore.load.
-- Locks: nothing.
-- Index: jobs_to_plan.
-- Zero rows: all is planned.
SELECT j.id, j.name, j.next_fire_at FROM shards s CROSS JOIN LATERAL (
    SELECT j.id, j.name, j.next_fire_at FROM jobs j
    WHERE j.cell = $1 AND j.shard = s.shard AND j.state = 'active' AND j.kind = 'recurring' AND j.next_fire_at < $3
      AND j.tenant_id = $2
    ORDER BY j.next_fire_at LIMIT $4) AS j
ORDER BY j.next_fire_at LIMIT $4
