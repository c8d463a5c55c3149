-- What ended since $3, for all tenants that are listened for, once a second: the newest $4 rows of each.
-- Caller: StatsStore.ended_since.
-- Locks: nothing.
-- Index: history_of_tenant, one range per tenant.
-- Zero rows: nothing ended.
SELECT r.*, j.name FROM unnest($2::integer[]) AS heard (id) CROSS JOIN LATERAL (
    SELECT h.tenant_id, h.job_id, h.fire_at, h.state, h.reason, h.due_at, h.started_at, h.finished_at, h.attempt, h.fire_count
    FROM history h WHERE h.tenant_id = heard.id AND h.finished_at >= $3
    ORDER BY h.finished_at DESC LIMIT $4) AS r
LEFT JOIN jobs j ON j.cell = $1 AND j.id = r.job_id
