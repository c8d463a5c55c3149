-- Executions of recurring jobs that their misfire policy has to decide about: missed, or kept late and not
-- started yet. Of each job the earliest $3.
-- Caller: misfires.missed_executions.
-- Locks: nothing; decide_missed looks again.
-- Index: executions_pkey, one range per job.
-- Zero rows: nothing was missed.
SELECT m.job_id, m.fire_at, m.due_at, m.pending
FROM (SELECT $1::smallint AS cell, g.id FROM unnest($2::uuid[]) AS g (id) OFFSET 0) AS j
CROSS JOIN LATERAL (
    SELECT e.job_id, e.fire_at, e.due_at, e.missed_after >= tocsin_now() AS pending
    FROM executions e
    WHERE e.cell = ANY (ARRAY[j.cell]) AND e.job_id = j.id AND e.started_at IS NULL AND e.attempt = 1
      AND (e.missed_after < tocsin_now() OR e.cause = 'catch_up' AND e.missed_after IS NOT NULL)
    ORDER BY e.fire_at
    LIMIT $3
    OFFSET 0
) AS m
ORDER BY m.job_id, m.fire_at
