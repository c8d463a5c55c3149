-- Let a node join the fleet, or rejoin it under the id that it had.
-- Caller: LeaseStore.register.
-- Locks: the node's row.
-- Index: nodes_pkey.
-- Zero rows: never; it returns the id.
INSERT INTO nodes (id, name, roles, version, expires_at, schema, queues, routes)
VALUES (coalesce(:node_id, nextval('node_ids') << 24 | floor(random() * (1 << 24))::bigint), :name, :roles, :version,
        tocsin_now() + :ttl::interval, :newest, :queues, :routes)
ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at
RETURNING id, pg_notify('tocsin', 'shards')
