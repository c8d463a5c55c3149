-- Writes alerts of a tenant's rule as they are now.
-- Caller: AlertCourses.write.
-- Locks: the rows, and the rule's, which the caller has locked before.
-- Index: alerts_pkey.
-- Zero rows: always.
INSERT INTO alerts (tenant_id, rule, alert_group, state, since, seen_at, summary, detail, resolved_at, told, told_at)
SELECT :tenant_id::integer, :rule::text, g.*
FROM unnest(:groups::text[], :states::text[], :since::timestamptz[], :seen_at::timestamptz[], :summaries::text[], :details::jsonb[],
            :resolved_at::timestamptz[], :told::text[], :told_at::timestamptz[]) AS g
ON CONFLICT (tenant_id, rule, alert_group) DO UPDATE
SET state = excluded.state, since = excluded.since, seen_at = excluded.seen_at, summary = excluded.summary, detail = excluded.detail,
    resolved_at = excluded.resolved_at, told = excluded.told, told_at = excluded.told_at
