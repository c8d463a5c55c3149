-- Recurring jobs whose cursor lies within the horizon, of the shards that a node leases. Jobs that are on
-- time come first: a herd that has hours to catch up must not hold them up. Late jobs are left out unless $6:
-- while somebody holds a transaction open, that range has an entry for every fire since. Jobs that this
-- version could not read ($7, $8: ids and versions) are passed over, by a hash.
-- Caller: PlanStore.due.
-- Locks: nothing; write_plan checks that nothing changed.
-- Index: jobs_to_plan, two ranges per shard.
-- Zero rows: nothing is to be planned within the horizon.
SELECT d.id, s.shard, d.tenant_id, d.next_fire_at, d.version, d.fire_count, d.schedule, d.policies
FROM unnest($2::smallint[]) AS s (shard)
CROSS JOIN LATERAL (
    (SELECT j.id, j.tenant_id, j.next_fire_at, j.version, j.fire_count, j.schedule, j.policies
     FROM jobs j
     WHERE j.cell = $1 AND j.shard = s.shard AND j.state = 'active' AND j.kind = 'recurring'
       AND j.next_fire_at >= $5 AND j.next_fire_at <= $3
       AND (j.id, j.version) NOT IN (SELECT * FROM unnest($7::uuid[], $8::integer[]))
     ORDER BY j.next_fire_at
     LIMIT $4)
    UNION ALL
    (SELECT j.id, j.tenant_id, j.next_fire_at, j.version, j.fire_count, j.schedule, j.policies
     FROM jobs j
     WHERE j.cell = $1 AND j.shard = s.shard AND j.state = 'active' AND j.kind = 'recurring'
       AND $6 AND j.next_fire_at < $5
       AND (j.id, j.version) NOT IN (SELECT * FROM unnest($7::uuid[], $8::integer[]))
     ORDER BY j.next_fire_at
     LIMIT $4)
) AS d
ORDER BY d.next_fire_at < $5
