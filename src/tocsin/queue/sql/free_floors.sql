-- Free the floor of executions that are over. Called inside the transaction that finished them, and followed by
-- `pass_floors` once that is committed. Whoever decides about one of these jobs right now is waited for.
DELETE FROM solos s
USING (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[]) AS g (job_id, fire_at) OFFSET 0
) AS d
WHERE s.cell = ANY (ARRAY[d.cell]) AND s.job_id = d.job_id AND s.fire_at = d.fire_at
  AND NOT EXISTS (SELECT FROM executions e WHERE e.cell = s.cell AND e.job_id = s.job_id AND e.fire_at = s.fire_at)
