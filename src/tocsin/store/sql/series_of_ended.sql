-- What ended of a tenant from $2 to $3 by buckets of $4 and by what $6 says, of one queue ($7) or all, of
-- the newest $5 rows of history. `rows` and `since` say how far it reaches.
-- Caller: SeriesStore.of_tenant.
-- Locks: nothing.
-- Index: history_of_tenant, one range.
-- Zero rows: nothing ended.
WITH newest AS MATERIALIZED (
    SELECT h.state, h.queue, h.finished_at, h.fire_count,
           CASE WHEN h.started_at IS NULL THEN NULL
                WHEN h.attempts IS NULL THEN extract(epoch FROM h.started_at - h.due_at) * 1000
                ELSE (h.attempts -> 0 ->> 'started_at')::numeric / 1000 - extract(epoch FROM h.due_at) * 1000 END AS lag_ms
    FROM history h WHERE h.tenant_id = $1 AND h.finished_at >= $2 AND h.finished_at < $3 AND ($7::text IS NULL OR h.queue = $7)
    ORDER BY h.finished_at DESC LIMIT $5
)
SELECT date_bin($4::interval, finished_at, $2::timestamptz) AS at,
       CASE $6::text WHEN 'state' THEN state WHEN 'queue' THEN queue ELSE '' END AS key, sum(fire_count)::bigint AS fires,
       tally_bins(array_agg(lag_ms)::float8[]) AS lag,
       (SELECT count(*) FROM newest)::integer AS rows, (SELECT min(finished_at) FROM newest) AS since
FROM newest GROUP BY 1, 2 ORDER BY 1
