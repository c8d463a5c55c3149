-- Wait for whoever decides about these jobs, and keep others waiting until commit: without this two workers could decide at
-- once, and the later one would judge by a look from before the earlier one had begun. Called by Gate, before anything else.
INSERT INTO deciding (cell, job_id)
SELECT DISTINCT $1::smallint, j.id FROM unnest($2::uuid[]) AS j (id) ORDER BY j.id
ON CONFLICT (cell, job_id) DO UPDATE SET job_id = excluded.job_id
