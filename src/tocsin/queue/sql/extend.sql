-- Heartbeat: move the deadlines of claims that are held or running for long. Called by PostgresQueue.extend.
-- Locks: the rows, by primary key; fenced by token. A row that is not returned was lost.
UPDATE executions e
SET deadline_at = tocsin_now() + $5::interval
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS h
WHERE e.cell = ANY (ARRAY[h.cell]) AND e.job_id = h.job_id AND e.fire_at = h.fire_at
  AND e.claim_token IS NOT DISTINCT FROM h.token
RETURNING h.place::integer - 1 AS place, e.cancel_requested, e.deadline_at
