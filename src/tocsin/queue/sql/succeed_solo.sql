-- `succeed` and `free_floors` in one statement, for executions of jobs that must not overlap.
-- Called by PostgresQueue.succeed with claims sorted by job: floors are waited for in the order in which others take them.
-- The floors come first: whoever keeps one, to decide about its job or to call something off, may want the executions.
WITH floor AS MATERIALIZED (
    SELECT 1
    FROM (SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[]) WITH ORDINALITY AS g (job_id, place) OFFSET 0) AS d
    JOIN solos s ON s.cell = ANY (ARRAY[d.cell]) AND s.job_id = d.job_id
    ORDER BY d.place
    FOR UPDATE OF s
), gone AS (
    DELETE FROM executions e
    USING (
        SELECT $1::smallint AS cell, g.*
        FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $6::integer[], $7::timestamptz[])
            AS g (job_id, fire_at, token, version, fired_at)
        WHERE (SELECT count(*) FROM floor) >= 0
        OFFSET 0
    ) AS d
    WHERE e.cell = ANY (ARRAY[d.cell]) AND e.job_id = d.job_id AND e.fire_at = d.fire_at
      AND e.claim_token IS NOT DISTINCT FROM d.token AND e.started_at IS NOT NULL
    RETURNING e.*, d.version, d.fired_at
), kept AS (
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at,
                         finished_at, attempt, attempts, claim_token, node_id, job_version, origin_fire_at,
                         backfill_id)
    SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'succeeded', due_at, run_at,
           coalesce(fired_at, started_at), greatest(started_at, fired_at, $5), attempt, attempts, claim_token, node_id,
           version, origin_fire_at, backfill_id
    FROM gone
), left_floor AS (
    DELETE FROM solos s
    USING gone g
    WHERE s.cell = ANY (ARRAY[g.cell]) AND s.job_id = g.job_id AND s.fire_at = g.fire_at
)
SELECT count(*)::integer AS moved FROM gone
