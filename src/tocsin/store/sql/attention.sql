-- What a person of tenant $1 may have to act on and no number tells: queues that are paused, the longest ones
-- first ($3 at most), and alerts that fire, the oldest first ($4 at most); for operators ($2) also those of
-- the fleet.
-- Caller: StatsStore.load.
-- Locks: nothing.
-- Index: queues_pkey, alerts_open.
-- Zero rows: there is nothing of it.
(
    SELECT 'queue' AS kind, name, paused_by AS who, reason AS words, paused_at AS at FROM queues
    WHERE tenant_id = $1 AND paused_at IS NOT NULL ORDER BY paused_at LIMIT $3
) UNION ALL (
    SELECT 'alert', a.rule, NULL, a.summary, a.since FROM alerts a JOIN alert_rules r ON r.tenant_id = a.tenant_id AND r.name = a.rule
    WHERE a.tenant_id = $1 AND a.state = 'firing' AND ($2 OR coalesce(r.settings ->> 'scope', 'tenant') = 'tenant')
    ORDER BY a.since LIMIT $4
)
