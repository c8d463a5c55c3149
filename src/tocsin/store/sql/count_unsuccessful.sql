-- Counts what ended from $1 to $2 without success, by minute and tenant, and by ten seconds for the fleet.
-- The last minute may be unfinished; writing again changes nothing.
-- Caller: TallyStore.count_unsuccessful, TallyStore.rebuild.
-- Locks: node 0's rows, which no other caller writes.
-- Index: history_unsuccessful, one range.
-- Zero rows: always.
WITH ended AS MATERIALIZED (
    SELECT h.tenant_id, h.queue, h.state, h.finished_at, h.fire_count,
           (CASE WHEN h.started_at IS NULL THEN NULL
                 WHEN h.attempts IS NULL THEN extract(epoch FROM h.started_at - h.due_at) * 1000
                 ELSE (h.attempts -> 0 ->> 'started_at')::numeric / 1000 - extract(epoch FROM h.due_at) * 1000 END)::float8 AS lag_ms,
           (extract(epoch FROM h.finished_at - h.started_at) * 1000)::float8 AS run_ms
    FROM history h WHERE h.state <> 'succeeded' AND h.finished_at >= $1 AND h.finished_at < $2
)
INSERT INTO tallies (tenant_id, step_s, bucket, queue, state, node_id, count, lag, run)
SELECT b.tenant_id, b.step_s, b.bucket, e.queue, e.state, 0, sum(e.fire_count),
       tally_bins(array_agg(e.lag_ms)), tally_bins(array_agg(e.run_ms))
FROM ended e CROSS JOIN LATERAL (
    VALUES (e.tenant_id, 60::smallint, date_bin('60 s', e.finished_at, 'epoch')),
           (0, 10::smallint, date_bin('10 s', e.finished_at, 'epoch'))) AS b (tenant_id, step_s, bucket)
GROUP BY 1, 2, 3, 4, 5
ON CONFLICT (tenant_id, step_s, bucket, queue, state, node_id)
DO UPDATE SET count = excluded.count, lag = excluded.lag, run = excluded.run
