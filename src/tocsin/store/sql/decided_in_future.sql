-- Jobs of which fire times were skipped as missed at an instant that has not come ($1): the database's clock
-- was ahead and has been put right.
-- Caller: Rewinding.rewind.
-- Locks: nothing.
-- Index: history_of_tenant, one range per tenant, and only in partitions of the future and of today.
-- Zero rows: nothing was decided ahead.
SELECT DISTINCT h.tenant_id, h.job_id
FROM tenants t
CROSS JOIN LATERAL (
    SELECT h.tenant_id, h.job_id FROM history h
    WHERE h.tenant_id = t.id AND h.finished_at > $1 AND h.state = 'skipped' AND h.reason LIKE 'misfire%'
    LIMIT $2
) AS h
LIMIT $2
