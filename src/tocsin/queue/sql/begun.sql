-- Which of these claims were started by an earlier try whose answer was lost on the way? Called by
-- PostgresQueue.start_gated when it is repeated: their rate, slot and turn are theirs already.
SELECT s.place::integer - 1 AS place, e.started_at
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS s
JOIN executions e ON e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
  AND e.claim_token IS NOT DISTINCT FROM s.token
WHERE e.started_at IS NOT NULL AND NOT e.cancel_requested
