-- Give shards back at once, and let the others know. Fenced by owner.
-- Caller: LeaseStore.give.
-- Locks: the shards that it gives.
-- Index: shards_pkey.
-- Zero rows: never; one row says how many were given.
WITH given AS (
    UPDATE shards SET owner = NULL, expires_at = tocsin_now()
    WHERE owner = $1 AND shard = ANY ($2::smallint[])
    RETURNING shard
)
SELECT count(*)::integer AS given, pg_notify('tocsin', 'shards') FROM given
