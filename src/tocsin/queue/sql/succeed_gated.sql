-- `succeed`, `free_slots` and `free_floors` in one statement, for executions whose slots, if any, their worker knows ($8).
-- Called by PostgresQueue.succeed with claims sorted by job: floors are waited for in the order in which others take them.
WITH gone AS (
    DELETE FROM executions e
    USING (
        SELECT $1::smallint AS cell, g.*
        FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $6::integer[], $7::timestamptz[],
                    $8::smallint[])
            AS g (job_id, fire_at, token, version, fired_at, slot)
        OFFSET 0
    ) AS d
    WHERE e.cell = ANY (ARRAY[d.cell]) AND e.job_id = d.job_id AND e.fire_at = d.fire_at
      AND e.claim_token IS NOT DISTINCT FROM d.token AND e.started_at IS NOT NULL
    RETURNING e.*, d.version, d.fired_at, d.slot
), kept AS (
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at,
                         finished_at, attempt, attempts, claim_token, node_id, job_version, origin_fire_at,
                         backfill_id)
    SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'succeeded', due_at, run_at,
           coalesce(fired_at, started_at), $5, attempt, attempts, claim_token, node_id, version, origin_fire_at,
           backfill_id
    FROM gone
), freed AS (
    UPDATE limit_slots s SET job_id = NULL, fire_at = NULL, claim_token = NULL
    FROM gone g
    WHERE s.cell = ANY (ARRAY[g.cell]) AND s.tenant_id = g.tenant_id AND s.key = g.limit_key AND s.slot = g.slot
      AND s.job_id = g.job_id AND s.fire_at = g.fire_at AND s.claim_token = g.claim_token
), left_floor AS (
    DELETE FROM solos s
    USING gone g
    WHERE g.overlap IS NOT NULL AND s.cell = ANY (ARRAY[g.cell]) AND s.job_id = g.job_id AND s.fire_at = g.fire_at
)
SELECT count(*)::integer AS moved FROM gone
