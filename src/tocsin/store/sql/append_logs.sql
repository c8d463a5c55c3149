-- Keep lines that attempts logged. Only the holder of a claim adds to its attempt's; a line that was sent
-- before is kept once.
-- Caller: LogStore.append.
-- Locks: nothing.
-- Index: executions_pkey, attempt_logs_pkey.
-- Zero rows: it returns none.
INSERT INTO attempt_logs (cell, job_id, fire_at, attempt, seq, at, tenant_id, level, message, fields, total)
SELECT e.cell, e.job_id, e.fire_at, e.attempt, l.seq, l.at, e.tenant_id, l.level, l.message, l.fields, l.total
FROM (
    SELECT :cell::smallint AS cell, g.*
    FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[], :seqs::integer[], :ats::timestamptz[], :levels::text[], :messages::text[],
                :fields::jsonb[], :totals::integer[])
        AS g (job_id, fire_at, token, seq, at, level, message, fields, total)
    OFFSET 0
) AS l
JOIN executions e ON e.cell = ANY (ARRAY[l.cell]) AND e.job_id = l.job_id AND e.fire_at = l.fire_at
  AND e.claim_token IS NOT DISTINCT FROM l.token
ON CONFLICT DO NOTHING
