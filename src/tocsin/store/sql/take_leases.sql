-- Take free or expired shards, each with a new epoch.
-- Caller: LeaseStore.take.
-- Locks: the chosen shards, skipping those that another node is taking.
-- Index: shards_pkey. Shards are few and read whole.
-- Zero rows: no shard is free.
UPDATE shards SET owner = $1, epoch = epoch + 1, expires_at = tocsin_now() + $2::interval
WHERE shard = ANY (ARRAY (
    SELECT shard FROM shards WHERE owner IS NULL OR expires_at <= tocsin_now()
    ORDER BY random() LIMIT $3 FOR UPDATE SKIP LOCKED
)) AND (owner IS NULL OR expires_at <= tocsin_now())
RETURNING shard, epoch
