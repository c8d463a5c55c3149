-- Writes the largest groups of a shard's jobs, after those from before are gone.
-- Caller: Foreseeing.write.
-- Locks: the new rows.
-- Index: forecast_groups_pkey.
-- Zero rows: always.
INSERT INTO forecast_groups (tenant_id, shard, place, queue, schedule, number, job_id, name)
SELECT g.tenant_id, $1::smallint, g.place, g.queue, g.schedule, g.number, g.job_id, g.name
FROM unnest($2::integer[], $3::smallint[], $4::text[], $5::text[], $6::integer[], $7::uuid[], $8::text[])
    AS g (tenant_id, place, queue, schedule, number, job_id, name)
