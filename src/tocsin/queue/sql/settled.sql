-- Which of these settlements are in history already? Called by PostgresQueue.settle when `finish` moved fewer
-- rows than it was given: an earlier try may have committed although its answer was lost on the way.
SELECT s.place::integer - 1 AS place
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS s
JOIN history h ON h.cell = ANY (ARRAY[s.cell]) AND h.job_id = s.job_id AND h.fire_at = s.fire_at
  AND h.claim_token = s.token
