-- Wait for whoever decides about the floor of these jobs, and keep others waiting until commit. Called before the
-- floor is granted. A job that has no row gets one that nobody's execution matches: without it two workers could
-- decide at once, and the later one would judge by a look from before the earlier one had begun.
INSERT INTO solos (cell, job_id, fire_at)
SELECT DISTINCT $1::smallint, j.id, '-infinity'::timestamptz FROM unnest($2::uuid[]) AS j (id) ORDER BY j.id
ON CONFLICT (cell, job_id) DO UPDATE SET fire_at = solos.fire_at
