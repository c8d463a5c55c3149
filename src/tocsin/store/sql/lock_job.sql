-- Take a job for a change. Called inside a transaction by every control action; the planner waits behind it.
-- Zero rows: no such job of this tenant.
SELECT id, tenant_id, shard, kind, queue, priority, state, schedule, policies, next_fire_at, fire_count, version
FROM jobs WHERE cell = $1 AND id = $2 AND tenant_id = $3
FOR UPDATE
