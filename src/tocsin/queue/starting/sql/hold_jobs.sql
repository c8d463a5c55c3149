-- Wait for workers that decide about these jobs, and keep others waiting until commit. Without this two
-- workers could decide at once, and the later one would judge by a look from before the earlier one had
-- begun. Runs before anything else.
-- Caller: Turns.decide.
-- Locks: one row of `deciding` per job, by id.
-- Index: deciding_pkey.
-- Zero rows: it returns none.
INSERT INTO deciding (cell, job_id)
SELECT DISTINCT :cell::smallint, j.id FROM unnest(:job_ids::uuid[]) AS j (id) ORDER BY j.id
ON CONFLICT (cell, job_id) DO UPDATE SET job_id = excluded.job_id
