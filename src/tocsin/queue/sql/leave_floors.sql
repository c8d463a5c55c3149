-- Leave the floor again without having started. Called by Gate.start for claims that got it a moment before.
DELETE FROM solos s
USING (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[]) AS g (job_id, fire_at) OFFSET 0
) AS d
WHERE s.cell = ANY (ARRAY[d.cell]) AND s.job_id = d.job_id AND s.fire_at = d.fire_at
