-- Take free or expired shards, each with a new epoch. `unowned_us`: for how long the lease had been over
-- of an owner that did not give it back.
-- Caller: LeaseStore.take.
-- Locks: the chosen shards, skipping those that another node is taking.
-- Index: shards_pkey. Shards are few and read whole.
-- Zero rows: no shard is free.
WITH free AS MATERIALIZED (
    SELECT shard, CASE WHEN owner IS NOT NULL THEN (extract(epoch FROM tocsin_now() - expires_at) * 1000000)::bigint END AS unowned_us
    FROM shards WHERE owner IS NULL OR expires_at <= tocsin_now()
    ORDER BY random() LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE shards s SET owner = $1, epoch = s.epoch + 1, expires_at = tocsin_now() + $2::interval
FROM free
WHERE s.shard = free.shard AND (s.owner IS NULL OR s.expires_at <= tocsin_now())
RETURNING s.shard, s.epoch, free.unowned_us
