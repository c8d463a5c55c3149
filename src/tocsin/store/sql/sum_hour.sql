-- Adds one node's ($3) minutes (ten seconds of the fleet) from $1 to $2, an hour, up to that hour's rows:
-- for nodes 0 and -1, which do not count hours themselves.
-- Caller: TallyStore.sum_hour, TallyStore.rebuild.
-- Locks: the node's rows, which no other node writes.
-- Index: tallies_pkey, one probe per tenant.
-- Zero rows: always.
INSERT INTO tallies (tenant_id, step_s, bucket, queue, state, node_id, count, lag, run)
SELECT t.id, 3600, $1::timestamptz, m.queue, m.state, $3::bigint, sum(m.count),
       ARRAY[sum(m.lag[1]), sum(m.lag[2]), sum(m.lag[3]), sum(m.lag[4]), sum(m.lag[5]), sum(m.lag[6]),
             sum(m.lag[7]), sum(m.lag[8]), sum(m.lag[9]), sum(m.lag[10]), sum(m.lag[11]), sum(m.lag[12]),
             sum(m.lag[13]), sum(m.lag[14]), sum(m.lag[15]), sum(m.lag[16]), sum(m.lag[17]), sum(m.lag[18])],
       ARRAY[sum(m.run[1]), sum(m.run[2]), sum(m.run[3]), sum(m.run[4]), sum(m.run[5]), sum(m.run[6]),
             sum(m.run[7]), sum(m.run[8]), sum(m.run[9]), sum(m.run[10]), sum(m.run[11]), sum(m.run[12]),
             sum(m.run[13]), sum(m.run[14]), sum(m.run[15]), sum(m.run[16]), sum(m.run[17]), sum(m.run[18])]
FROM (SELECT id, 60 AS step_s FROM tenants UNION ALL SELECT 0, 10) AS t CROSS JOIN LATERAL (
    SELECT * FROM tallies m
    WHERE m.tenant_id = t.id AND m.step_s = t.step_s AND m.bucket >= $1 AND m.bucket < $2 AND m.node_id = $3) AS m
GROUP BY t.id, m.queue, m.state
ON CONFLICT (tenant_id, step_s, bucket, queue, state, node_id)
DO UPDATE SET count = excluded.count, lag = excluded.lag, run = excluded.run
