-- Make room for the newest of the claims that ask for the floor: older executions of their jobs are asked to stop if
-- they run, and called off if they have not started or wait for another attempt. Called by Gate inside the transaction that
-- decides about the jobs: before the floor is granted, and again for those that did not get it. A claim that was lost
-- meanwhile makes no room. What has been missed is left to its misfire policy.
WITH newest AS (
    SELECT e.cell, e.job_id, max(e.fire_at) AS fire_at
    FROM (
        SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
            AS g (job_id, fire_at, token) OFFSET 0
    ) AS c
    JOIN executions e ON e.cell = ANY (ARRAY[c.cell]) AND e.job_id = c.job_id AND e.fire_at = c.fire_at
      AND e.claim_token IS NOT DISTINCT FROM c.token
    WHERE NOT e.cancel_requested
    GROUP BY e.cell, e.job_id
), asked AS (
    UPDATE executions e SET cancel_requested = true, cancel_reason = 'replaced by a newer execution'
    FROM newest n
    WHERE e.cell = ANY (ARRAY[n.cell]) AND e.job_id = n.job_id AND e.fire_at < n.fire_at AND e.overlap = 'replace'
      AND e.started_at IS NOT NULL AND NOT e.cancel_requested
    RETURNING 1
), gone AS (
    DELETE FROM executions e USING newest n
    WHERE e.cell = ANY (ARRAY[n.cell]) AND e.job_id = n.job_id AND e.fire_at < n.fire_at AND e.overlap = 'replace'
      AND e.started_at IS NULL AND e.due_at <= tocsin_now()
      AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now())
    RETURNING e.*
), kept AS (
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,
                         finished_at, attempt, attempts, reason, origin_fire_at, backfill_id)
    SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'cancelled', due_at, run_at, tocsin_now(),
           attempt, attempts, 'replaced by a newer execution', origin_fire_at, backfill_id
    FROM gone
)
SELECT pg_notify('tocsin', 'stop') FROM asked LIMIT 1
