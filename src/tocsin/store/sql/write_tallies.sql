-- Writes what a node has counted. Each row holds all that the node counted in its bucket, so writing it again
-- changes nothing.
-- Caller: TallyStore.write.
-- Locks: the node's own rows, which no other node writes.
-- Index: tallies_pkey.
-- Zero rows: always.
INSERT INTO tallies AS t (node_id, tenant_id, step_s, bucket, queue, state, count, lag, run)
SELECT :node_id::bigint, g.tenant_id, g.step_s, g.bucket, g.queue, g.state, g.count, g.lag::integer[], g.run::integer[]
FROM unnest(:tenant_ids::integer[], :steps::smallint[], :buckets::timestamptz[], :queues::text[], :states::text[],
            :counts::bigint[], :lags::text[], :runs::text[])
    AS g (tenant_id, step_s, bucket, queue, state, count, lag, run)
ON CONFLICT (tenant_id, step_s, bucket, queue, state, node_id)
DO UPDATE SET count = excluded.count, lag = excluded.lag, run = excluded.run
