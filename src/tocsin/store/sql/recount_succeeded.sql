-- Counts what succeeded from $1 to $2 again, from history, as node -1, after what was counted before is
-- gone.
-- Caller: TallyStore.rebuild.
-- Locks: node -1's rows.
-- Index: history_of_tenant, one range per tenant.
-- Zero rows: always.
INSERT INTO tallies (tenant_id, step_s, bucket, queue, state, node_id, count, lag, run)
SELECT b.tenant_id, b.step_s, b.bucket, e.queue, 'succeeded', -1, count(*),
       tally_bins(array_agg(e.lag_ms)), tally_bins(array_agg(e.run_ms))
FROM tenants t CROSS JOIN LATERAL (
    SELECT h.tenant_id, h.queue, h.finished_at,
           (CASE WHEN h.attempt = 1 THEN extract(epoch FROM h.started_at - h.due_at) * 1000 END)::float8 AS lag_ms,
           (extract(epoch FROM h.finished_at - h.started_at) * 1000)::float8 AS run_ms
    FROM history h
    WHERE h.tenant_id = t.id AND h.finished_at >= $1 AND h.finished_at < $2 AND h.state = 'succeeded') AS e
CROSS JOIN LATERAL (
    VALUES (e.tenant_id, 60::smallint, date_bin('60 s', e.finished_at, 'epoch')),
           (0, 10::smallint, date_bin('10 s', e.finished_at, 'epoch'))) AS b (tenant_id, step_s, bucket)
GROUP BY 1, 2, 3, 4
