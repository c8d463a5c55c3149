-- What ended from $3 to $4 by buckets of $5 and by what $6 says, from tallies of $2 seconds of a tenant (0:
-- of the fleet), of one queue ($7) or all. Reads as many rows as there are steps, times queues, states and
-- nodes.
-- Caller: SeriesStore._tallied.
-- Locks: nothing.
-- Index: tallies_pkey, one range.
-- Zero rows: nothing was counted.
SELECT date_bin($5::interval, m.bucket, $3::timestamptz) AS at,
       CASE $6::text WHEN 'state' THEN m.state WHEN 'queue' THEN m.queue ELSE '' END AS key, sum(m.count)::bigint AS fires,
       ARRAY[sum(m.lag[1]), sum(m.lag[2]), sum(m.lag[3]), sum(m.lag[4]), sum(m.lag[5]), sum(m.lag[6]), sum(m.lag[7]), sum(m.lag[8]), sum(m.lag[9]),
             sum(m.lag[10]), sum(m.lag[11]), sum(m.lag[12]), sum(m.lag[13]), sum(m.lag[14]), sum(m.lag[15]), sum(m.lag[16]), sum(m.lag[17]), sum(m.lag[18])]::bigint[] AS lag
FROM tallies m
WHERE m.tenant_id = $1 AND m.step_s = $2 AND m.bucket >= $3 AND m.bucket < $4 AND ($7::text IS NULL OR m.queue = $7)
GROUP BY 1, 2 ORDER BY 1
