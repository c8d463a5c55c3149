-- How many executions ended in each of the $3 minutes before $2, by tenant and queue; skipped ones did not
-- run and are left out. `minute` 0 is the latest. Of each tenant the newest $4 rows.
-- Caller: QueueStore.look.
-- Locks: nothing.
-- Index: history_of_tenant, one range per tenant.
-- Zero rows: nothing ended.
SELECT h.tenant_id, h.queue, h.minute, count(*)::integer AS number
FROM unnest($1::integer[]) AS t (id)
CROSS JOIN LATERAL (
    SELECT h.tenant_id, h.queue, floor(extract(epoch FROM $2::timestamptz - h.finished_at) / 60)::integer AS minute, h.state
    FROM history h
    WHERE h.tenant_id = t.id AND h.finished_at > $2::timestamptz - $3::integer * interval '1 minute' AND h.finished_at <= $2
    ORDER BY h.finished_at DESC LIMIT $4
) AS h
WHERE h.state <> 'skipped'
GROUP BY 1, 2, 3
