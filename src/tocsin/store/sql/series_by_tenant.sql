-- What ended from $2 to $3 by buckets of $4 and by tenant, from tallies of $1 seconds, of one queue ($5) or
-- all, of $6 tenants at most.
-- Caller: SeriesStore.by_tenant.
-- Locks: nothing.
-- Index: tallies_pkey, one range per tenant.
-- Zero rows: nothing was counted.
SELECT b.at, t.name AS key, b.fires, b.lag
FROM (SELECT id, name FROM tenants ORDER BY id LIMIT $6) AS t CROSS JOIN LATERAL (
    SELECT date_bin($4::interval, m.bucket, $2::timestamptz) AS at, sum(m.count)::bigint AS fires,
           ARRAY[sum(m.lag[1]), sum(m.lag[2]), sum(m.lag[3]), sum(m.lag[4]), sum(m.lag[5]), sum(m.lag[6]), sum(m.lag[7]), sum(m.lag[8]), sum(m.lag[9]),
             sum(m.lag[10]), sum(m.lag[11]), sum(m.lag[12]), sum(m.lag[13]), sum(m.lag[14]), sum(m.lag[15]), sum(m.lag[16]), sum(m.lag[17]), sum(m.lag[18])]::bigint[] AS lag
    FROM tallies m
    WHERE m.tenant_id = t.id AND m.step_s = $1 AND m.bucket >= $2 AND m.bucket < $3 AND ($5::text IS NULL OR m.queue = $5)
    GROUP BY 1) AS b
ORDER BY 1
