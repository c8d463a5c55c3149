-- A tenant's dead letters since $2 by kind of error, the most frequent first, of the newest $3. The
-- fingerprint and the start of the error say what is one kind.
-- Caller: StatsStore.dead_by_error.
-- Locks: nothing.
-- Index: history_dead, one range.
-- Zero rows: nothing died.
SELECT d.error_fingerprint, d.status, count(*)::integer AS number, count(DISTINCT d.job_id)::integer AS jobs,
       min(d.finished_at) AS first_at, max(d.finished_at) AS last_at,
       (array_agg(d.reason ORDER BY d.finished_at DESC))[1] AS error,
       (array_agg(d.job_id ORDER BY d.finished_at DESC))[1] AS job_id,
       (array_agg(d.fire_at ORDER BY d.finished_at DESC))[1] AS fire_at,
       count(*) FILTER (WHERE d.finished_at >= $4::timestamptz - interval '1 hour')::integer AS last_hour
FROM (SELECT h.error_fingerprint, h.reason, h.job_id, h.fire_at, h.finished_at, h.outcome -> 'detail' ->> 'status' AS status
      FROM history h WHERE h.tenant_id = $1 AND h.state = 'dead' AND h.finished_at >= $2
      ORDER BY h.finished_at DESC LIMIT $3) AS d
GROUP BY 1, 2 ORDER BY 3 DESC, 6 DESC LIMIT 50
