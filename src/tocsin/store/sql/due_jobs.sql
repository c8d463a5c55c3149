-- Recurring jobs whose cursor lies within the horizon, of the shards that a node leases. Jobs that are on
-- time come first: a herd that has hours to catch up must not hold them up. Late jobs are left out unless
-- `late`: while a transaction is held open, that range has an entry for every fire since. Jobs that this
-- version could not read (`unread_ids`, `unread_versions`) are passed over, by a hash.
-- Caller: PlanStore.due.
-- Locks: nothing; write_plan checks that nothing changed.
-- Index: jobs_to_plan, two ranges per shard.
-- Zero rows: nothing is to be planned within the horizon.
SELECT d.id, s.shard, d.tenant_id, d.next_fire_at, d.version, d.fire_count, d.schedule, d.policies
FROM unnest(:shards::smallint[]) AS s (shard)
CROSS JOIN LATERAL (
    (SELECT j.id, j.tenant_id, j.next_fire_at, j.version, j.fire_count, j.schedule, j.policies
     FROM jobs j
     WHERE j.cell = :cell AND j.shard = s.shard AND j.state = 'active' AND j.kind = 'recurring'
       AND j.next_fire_at >= :live_from AND j.next_fire_at <= :until
       AND (j.id, j.version) NOT IN (SELECT * FROM unnest(:unread_ids::uuid[], :unread_versions::integer[]))
     ORDER BY j.next_fire_at
     LIMIT :per_shard)
    UNION ALL
    (SELECT j.id, j.tenant_id, j.next_fire_at, j.version, j.fire_count, j.schedule, j.policies
     FROM jobs j
     WHERE j.cell = :cell AND j.shard = s.shard AND j.state = 'active' AND j.kind = 'recurring'
       AND :late AND j.next_fire_at < :live_from
       AND (j.id, j.version) NOT IN (SELECT * FROM unnest(:unread_ids::uuid[], :unread_versions::integer[]))
     ORDER BY j.next_fire_at
     LIMIT :per_shard)
) AS d
ORDER BY d.next_fire_at < :live_from
