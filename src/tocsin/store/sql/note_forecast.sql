-- Notes when the forecasts of shards were looked at, as far as their leases are still held, and whether they
-- are whole, or without $5 that this has not changed.
-- Caller: Foreseeing.write, Foreseeing.note_look.
-- Locks: the shards' leases FOR SHARE, so that a takeover waits for what is written under them, and the rows.
-- Index: shards_pkey, forecast_shards_pkey.
-- Zero rows: the leases were lost.
WITH own AS (
    SELECT s.shard
    FROM unnest($1::smallint[], $2::bigint[]) AS f (shard, epoch)
    JOIN shards s ON s.shard = f.shard
    WHERE s.owner = $3 AND s.epoch = f.epoch AND s.expires_at > tocsin_now()
    FOR SHARE OF s
)
INSERT INTO forecast_shards (shard, computed_at, whole)
SELECT own.shard, $4::timestamptz, coalesce($5::boolean, true) FROM own
ON CONFLICT (shard) DO UPDATE SET computed_at = excluded.computed_at, whole = coalesce($5::boolean, forecast_shards.whole)
RETURNING shard
