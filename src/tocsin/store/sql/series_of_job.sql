-- How the fires of one job from `since` to `until` ended, by buckets of `step` of their fire times and by
-- `group_by`, of its latest `most` rows of history. The columns `rows` and `since` say how far it reaches.
-- Caller: SeriesStore.of_job.
-- Locks: nothing.
-- Index: history_of_job, one range.
-- Zero rows: nothing ended.
WITH newest AS MATERIALIZED (
    SELECT h.state, h.queue, h.fire_at, h.fire_count,
           CASE WHEN h.started_at IS NULL THEN NULL
                WHEN h.attempts IS NULL THEN extract(epoch FROM h.started_at - h.due_at) * 1000
                ELSE (h.attempts -> 0 ->> 'started_at')::numeric / 1000 - extract(epoch FROM h.due_at) * 1000 END AS lag_ms
    FROM history h WHERE h.cell = :cell AND h.job_id = :job_id AND h.tenant_id = :tenant_id AND h.fire_at >= :since AND h.fire_at < :until
    ORDER BY h.fire_at DESC LIMIT :most
)
SELECT date_bin(:step::interval, fire_at, :since::timestamptz) AS at,
       CASE :group_by::text WHEN 'state' THEN state WHEN 'queue' THEN queue ELSE '' END AS key, sum(fire_count)::bigint AS fires,
       tally_bins(array_agg(lag_ms)::float8[]) AS lag,
       (SELECT count(*) FROM newest)::integer AS rows, (SELECT min(fire_at) FROM newest) AS since
FROM newest GROUP BY 1, 2 ORDER BY 1
