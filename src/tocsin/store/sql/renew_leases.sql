-- The heartbeat of a node: presence, renewal of its leases, and what it needs to see of the others. Every
-- third of a ttl; the only statement of an idle scheduler. It also tells which migration was applied that the
-- node's build ($4: its newest) does not run beside, if there is one. A lease that has expired is not renewed
-- even if no node took it: its holder stopped trusting it earlier.
-- Caller: LeaseStore.renew.
-- Locks: the node's row and the shards that it holds.
-- Index: nodes_pkey, migrations_pkey. Shards are few and read whole.
-- Zero rows: never; one row, which says whether the fleet knows the node.
WITH me AS (
    UPDATE nodes SET seen_at = tocsin_now(), expires_at = tocsin_now() + $2::interval, stats = $3::jsonb
    WHERE id = $1
    RETURNING id
), kept AS (
    UPDATE shards SET expires_at = tocsin_now() + $2::interval
    WHERE owner = $1 AND expires_at > tocsin_now() AND EXISTS (SELECT FROM me)
    RETURNING shard, epoch
)
SELECT tocsin_now() AS now, EXISTS (SELECT FROM me) AS known,
       (SELECT count(*) FROM nodes WHERE 'scheduler' = ANY (roles) AND (expires_at > tocsin_now() OR id = $1))::integer
           AS schedulers,
       ARRAY (SELECT id FROM nodes WHERE ('worker' = ANY (roles) OR 'task' = ANY (routes))
              AND (expires_at > tocsin_now() OR id = $1)) AS workers,
       (SELECT count(*) FROM shards)::integer AS shards,
       (SELECT count(*) FROM shards WHERE owner IS NULL OR expires_at <= tocsin_now())::integer AS free,
       (SELECT min(expires_at) FROM shards WHERE owner <> $1 AND expires_at > tocsin_now()) AS soonest,
       (SELECT name FROM migrations WHERE number > $4 AND coalesce(runs_beside, number) > $4 ORDER BY number LIMIT 1)
           AS overtaken_by,
       coalesce((SELECT array_agg(shard) FROM kept), '{}') AS held,
       coalesce((SELECT array_agg(epoch) FROM kept), '{}') AS epochs
