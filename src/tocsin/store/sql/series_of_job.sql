-- How the fires of one job from $4 to $5 ended, by buckets of $6 of their fire times and by what $8 says, of
-- its latest $7 rows of history. `rows` and `since` say how far it reaches.
-- Caller: SeriesStore.of_job.
-- Locks: nothing.
-- Index: history_of_job, one range.
-- Zero rows: nothing ended.
WITH newest AS MATERIALIZED (
    SELECT h.state, h.queue, h.fire_at, h.fire_count,
           CASE WHEN h.started_at IS NULL THEN NULL
                WHEN h.attempts IS NULL THEN extract(epoch FROM h.started_at - h.due_at) * 1000
                ELSE (h.attempts -> 0 ->> 'started_at')::numeric / 1000 - extract(epoch FROM h.due_at) * 1000 END AS lag_ms
    FROM history h WHERE h.cell = $1 AND h.job_id = $2 AND h.tenant_id = $3 AND h.fire_at >= $4 AND h.fire_at < $5
    ORDER BY h.fire_at DESC LIMIT $7
)
SELECT date_bin($6::interval, fire_at, $4::timestamptz) AS at,
       CASE $8::text WHEN 'state' THEN state WHEN 'queue' THEN queue ELSE '' END AS key, sum(fire_count)::bigint AS fires,
       tally_bins(array_agg(lag_ms)::float8[]) AS lag,
       (SELECT count(*) FROM newest)::integer AS rows, (SELECT min(fire_at) FROM newest) AS since
FROM newest GROUP BY 1, 2 ORDER BY 1
