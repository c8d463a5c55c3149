-- Writes the days of a shard's forecast, after those from before are gone.
-- Caller: Foreseeing.write.
-- Locks: the new rows.
-- Index: forecasts_pkey.
-- Zero rows: always.
INSERT INTO forecasts (tenant_id, day, queue, shard, minutes, fires)
SELECT d.tenant_id, d.day, d.queue, $1::smallint, d.minutes::smallint[], d.fires::real[]
FROM unnest($2::integer[], $3::date[], $4::text[], $5::text[], $6::text[]) AS d (tenant_id, day, queue, minutes, fires)
