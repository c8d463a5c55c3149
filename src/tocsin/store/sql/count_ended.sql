-- Called by StatsStore.load: how a tenant's newest executions ended since $2, and how late they started. Locks nothing; a range of
-- history_of_tenant, $3 rows at most. Always one row. Lag is that of the first attempt; what expired never started and is late.
WITH newest AS MATERIALIZED (
    SELECT h.state, h.finished_at, h.fire_count,
           CASE WHEN h.started_at IS NULL THEN NULL
                WHEN h.attempts IS NULL THEN extract(epoch FROM h.started_at - h.due_at) * 1000
                ELSE (h.attempts -> 0 ->> 'started_at')::numeric / 1000 - extract(epoch FROM h.due_at) * 1000 END AS lag_ms
    FROM history h WHERE h.tenant_id = $1 AND h.finished_at >= $2
    ORDER BY h.finished_at DESC LIMIT $3
)
SELECT (SELECT count(*) FROM newest)::integer AS rows, min(finished_at) AS since,
       coalesce(sum(fire_count) FILTER (WHERE state = 'succeeded'), 0)::integer AS succeeded,
       coalesce(sum(fire_count) FILTER (WHERE state = 'dead'), 0)::integer AS dead,
       coalesce(sum(fire_count) FILTER (WHERE state = 'skipped'), 0)::integer AS skipped,
       coalesce(sum(fire_count) FILTER (WHERE state = 'cancelled'), 0)::integer AS cancelled,
       coalesce(sum(fire_count) FILTER (WHERE state = 'expired'), 0)::integer AS expired,
       count(lag_ms)::integer AS started, (count(*) FILTER (WHERE lag_ms <= $4))::integer AS on_time,
       (percentile_disc(0.5) WITHIN GROUP (ORDER BY lag_ms))::float8 AS p50_ms,
       (percentile_disc(0.99) WITHIN GROUP (ORDER BY lag_ms))::float8 AS p99_ms
FROM newest
