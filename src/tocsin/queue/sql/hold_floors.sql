-- Keep the executions that have the floor of these jobs from ending until commit: who is refused for the sake of one is put
-- back before that one passes the turn on. Locks: these executions, by job, before any other; not weaker than `grant_floors`
-- needs them, which marks them. Called by Gate after `hold_jobs`, whose rows are done with: that they are gone
-- is seen at commit, and until then others wait for them all the same. Index: executions_floor.
WITH done AS (
    DELETE FROM deciding d
    USING (SELECT $1::smallint AS cell, g.id FROM unnest($2::uuid[]) AS g (id) OFFSET 0) AS j
    WHERE d.cell = ANY (ARRAY[j.cell]) AND d.job_id = j.id
)
SELECT FROM (SELECT DISTINCT g.id FROM unnest($2::uuid[]) AS g (id) ORDER BY g.id OFFSET 0) AS j
CROSS JOIN LATERAL (
    SELECT FROM executions h WHERE h.cell = $1 AND h.job_id = j.id AND h.has_floor FOR NO KEY UPDATE
) AS holder
