-- The nodes and the shards at one moment, as arrays, for those who watch the fleet.
-- Caller: LeaseStore.fleet.
-- Locks: nothing.
-- Index: none; both tables are small and read whole.
-- Zero rows: never; always one row.
SELECT tocsin_now() AS now, n.ids, n.names, n.roles, n.alive, n.seen, s.shards, s.owners, s.epochs
FROM (SELECT array_agg(id ORDER BY id) AS ids, array_agg(name ORDER BY id) AS names,
             array_agg(array_to_string(roles, ' ') ORDER BY id) AS roles,
             array_agg(expires_at > tocsin_now() ORDER BY id) AS alive, array_agg(seen_at ORDER BY id) AS seen
      FROM nodes) AS n,
     (SELECT array_agg(shard ORDER BY shard) AS shards, array_agg(owner ORDER BY shard) AS owners,
             array_agg(epoch ORDER BY shard) AS epochs
      FROM shards) AS s
