-- Writes the largest groups of a shard's jobs, after those from before are gone.
-- Caller: Foreseeing.write.
-- Locks: the new rows.
-- Index: forecast_groups_pkey.
-- Zero rows: always.
INSERT INTO forecast_groups (tenant_id, shard, place, queue, schedule, number, job_id, name)
SELECT g.tenant_id, :shard::smallint, g.place, g.queue, g.schedule, g.number, g.job_id, g.name
FROM unnest(:tenant_ids::integer[], :places::smallint[], :queues::text[], :schedules::text[], :numbers::integer[], :job_ids::uuid[], :names::text[])
    AS g (tenant_id, place, queue, schedule, number, job_id, name)
