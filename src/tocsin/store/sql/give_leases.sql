-- Give shards back at once, and let the others know. Called by LeaseStore.give; fenced by owner.
WITH given AS (
    UPDATE shards SET owner = NULL, expires_at = tocsin_now()
    WHERE owner = $1 AND shard = ANY ($2::smallint[])
    RETURNING shard
)
SELECT count(*)::integer AS given, pg_notify('tocsin', 'shards') FROM given
