-- Called by StatsStore.series: how a tenant's executions ended, by bucket of $4 from $2 to $3. Locks nothing; a range of
-- history_of_tenant, the newest $5 rows of it at most. No row: nothing ended in the range. `rows` and `since` say how far it reaches.
WITH newest AS MATERIALIZED (
    SELECT h.state, h.finished_at, h.fire_count,
           CASE WHEN h.started_at IS NULL THEN NULL
                WHEN h.attempts IS NULL THEN extract(epoch FROM h.started_at - h.due_at) * 1000
                ELSE (h.attempts -> 0 ->> 'started_at')::numeric / 1000 - extract(epoch FROM h.due_at) * 1000 END AS lag_ms
    FROM history h WHERE h.tenant_id = $1 AND h.finished_at >= $2 AND h.finished_at < $3
    ORDER BY h.finished_at DESC LIMIT $5
)
SELECT date_bin($4::interval, finished_at, $2::timestamptz) AS at,
       coalesce(sum(fire_count) FILTER (WHERE state = 'succeeded'), 0)::integer AS succeeded,
       coalesce(sum(fire_count) FILTER (WHERE state = 'dead'), 0)::integer AS dead,
       coalesce(sum(fire_count) FILTER (WHERE state = 'skipped'), 0)::integer AS skipped,
       coalesce(sum(fire_count) FILTER (WHERE state = 'cancelled'), 0)::integer AS cancelled,
       coalesce(sum(fire_count) FILTER (WHERE state = 'expired'), 0)::integer AS expired,
       (percentile_disc(0.5) WITHIN GROUP (ORDER BY lag_ms))::float8 AS p50_ms,
       (percentile_disc(0.99) WITHIN GROUP (ORDER BY lag_ms))::float8 AS p99_ms,
       (SELECT count(*) FROM newest)::integer AS rows, (SELECT min(finished_at) FROM newest) AS since
FROM newest GROUP BY 1 ORDER BY 1
