-- Take free or expired shards, each with a new epoch. Called by LeaseStore.take.
-- Locks: the chosen rows, skipping those another node is taking.
UPDATE shards SET owner = $1, epoch = epoch + 1, expires_at = tocsin_now() + $2::interval
WHERE shard = ANY (ARRAY (
    SELECT shard FROM shards WHERE owner IS NULL OR expires_at <= tocsin_now()
    ORDER BY random() LIMIT $3 FOR UPDATE SKIP LOCKED
)) AND (owner IS NULL OR expires_at <= tocsin_now())
RETURNING shard, epoch
