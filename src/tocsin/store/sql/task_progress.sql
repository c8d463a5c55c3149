-- How far tasks say they are, while their claims are held.
-- Caller: Telling._tell.
-- Locks: the executions.
-- Index: executions_pkey.
-- Zero rows: it returns none; a claim that was lost says nothing any more.
UPDATE executions e SET progress = p.progress
FROM (
    SELECT $1::smallint AS cell, g.*
    FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::jsonb[]) AS g (job_id, fire_at, token, progress)
    OFFSET 0
) AS p
WHERE e.cell = ANY (ARRAY[p.cell]) AND e.job_id = p.job_id AND e.fire_at = p.fire_at
  AND e.claim_token IS NOT DISTINCT FROM p.token
