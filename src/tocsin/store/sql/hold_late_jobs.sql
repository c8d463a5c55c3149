-- The jobs whose missed executions are about to be decided. Until commit no other transaction plans, pauses
-- or changes them.
-- Caller: misfires._hold, Rewinding.rewind.
-- Locks: the jobs, in order of their ids, skipping those that others have.
-- Index: jobs_pkey.
-- Zero rows: others have all of them, or they are gone.
SELECT j.id, j.schedule, j.policies, CASE WHEN j.state = 'active' THEN j.next_fire_at END AS cursor
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::integer[], $3::uuid[]) AS g (tenant_id, id) OFFSET 0
) AS w
JOIN jobs j ON j.cell = ANY (ARRAY[w.cell]) AND j.tenant_id = ANY (ARRAY[w.tenant_id]) AND j.id = w.id
ORDER BY j.id
FOR NO KEY UPDATE OF j SKIP LOCKED
