-- Keep lines that attempts logged. Only the holder of a claim adds to its attempt's; a line that was sent
-- before is kept once.
-- Caller: LogStore.append.
-- Locks: nothing.
-- Index: executions_pkey, attempt_logs_pkey.
-- Zero rows: it returns none.
INSERT INTO attempt_logs (cell, job_id, fire_at, attempt, seq, at, tenant_id, level, message, fields, total)
SELECT e.cell, e.job_id, e.fire_at, e.attempt, l.seq, l.at, e.tenant_id, l.level, l.message, l.fields, l.total
FROM (
    SELECT $1::smallint AS cell, g.*
    FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::integer[], $6::timestamptz[], $7::text[], $8::text[],
                $9::jsonb[], $10::integer[])
        AS g (job_id, fire_at, token, seq, at, level, message, fields, total)
    OFFSET 0
) AS l
JOIN executions e ON e.cell = ANY (ARRAY[l.cell]) AND e.job_id = l.job_id AND e.fire_at = l.fire_at
  AND e.claim_token IS NOT DISTINCT FROM l.token
ON CONFLICT DO NOTHING
