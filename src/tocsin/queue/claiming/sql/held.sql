-- Claims by their identity and token, as far as they are still held: what a gateway needs to settle or extend
-- what another one handed out.
-- Caller: Holding.find.
-- Locks: nothing.
-- Index: executions_pkey, jobs_pkey.
-- Zero rows: all of them have passed on or ended.
\ir claim_columns.sql
FROM (
    SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[])
        AS g (job_id, fire_at, token) OFFSET 0
) AS h
JOIN executions e ON e.cell = ANY (ARRAY[h.cell]) AND e.job_id = h.job_id AND e.fire_at = h.fire_at
  AND e.claim_token IS NOT DISTINCT FROM h.token
LEFT JOIN LATERAL (
    SELECT * FROM jobs j WHERE j.cell = e.cell AND j.tenant_id = e.tenant_id AND j.id = e.job_id OFFSET 0) AS j ON true
