-- How late what ended started, from $3 on, in buckets of $2 seconds: of tenants ($1), or of the fleet as
-- tenant 0; in one queue or, without $4, in all but $5. `lag` is the histogram of one row.
-- Caller: AlertSources.lags, AlertSources.ended.
-- Locks: nothing.
-- Index: tallies_pkey, one range per tenant.
-- Zero rows: nothing ended.
SELECT t.tenant_id, t.queue, t.state, t.count, t.lag FROM tallies t
WHERE t.tenant_id = ANY ($1::integer[]) AND t.step_s = $2 AND t.bucket >= $3 AND ($4::text IS NULL OR t.queue = $4) AND t.queue <> $5
