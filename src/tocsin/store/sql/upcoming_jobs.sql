-- Recurring jobs of a tenant by the first fire time that is not planned yet. One probe per shard, $5 rows
-- each: jobs are spread over shards at random, so no shard has much more than its share of the next $3.
-- Caller: StatsStore.upcoming.
-- Locks: nothing.
-- Index: jobs_to_plan.
-- Zero rows: no recurring job is active.
SELECT n.id, n.name, n.next_fire_at FROM shards s CROSS JOIN LATERAL (
    SELECT j.id, j.name, j.next_fire_at FROM jobs j
    WHERE j.cell = $1 AND j.shard = s.shard AND j.state = 'active' AND j.kind = 'recurring' AND j.tenant_id = $2
      AND j.next_fire_at < $4
    ORDER BY j.next_fire_at LIMIT $5) AS n
ORDER BY n.next_fire_at LIMIT $3
