-- Recurring jobs that were not planned although they were due before $2: of tenants ($1) or, without $1, of
-- all. One probe per shard, bounded by $3; $4 jobs are told. Jobs of suspended tenants are not expected to
-- fire.
-- Caller: AlertSources.unplanned.
-- Locks: nothing.
-- Index: jobs_to_plan.
-- Zero rows: all is planned.
SELECT j.tenant_id, j.id AS job_id, j.name, j.next_fire_at AS fire_at
FROM shards s CROSS JOIN LATERAL (
    SELECT j.tenant_id, j.id, j.name, j.next_fire_at FROM jobs j
    WHERE j.cell = $5 AND j.shard = s.shard AND j.state = 'active' AND j.kind = 'recurring' AND j.next_fire_at < $2
    ORDER BY j.next_fire_at LIMIT $3
) AS j
JOIN tenants t ON t.id = j.tenant_id AND t.state = 'active'
WHERE $1::integer[] IS NULL OR j.tenant_id = ANY ($1)
ORDER BY j.next_fire_at LIMIT $4
