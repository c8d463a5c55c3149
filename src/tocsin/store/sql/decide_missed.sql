-- What becomes of executions that were missed: those with a reason do not run, the others run in the catch-up
-- lane, after their wait, and are missed again if they have not started a grace later. Runs inside
-- transactions that have the jobs locked. A worker that has claimed one finds that its token is gone, and
-- starts nothing. An execution that has started, or was ended, since it was read is left alone. What does not
-- run does not count as a fire.
-- Caller: misfires.write_decisions.
-- Locks: nothing; `hold_missed` has the executions locked.
-- Index: executions_pkey, jobs_pkey.
-- Zero rows: never; one row says how many run, how many do not, and which of the latter belong to jobs in
-- which others may wait for their turn.
WITH asked AS MATERIALIZED (
    SELECT e.ctid, m.reason, m.wait, m.grace
    FROM (
        SELECT :cell::smallint AS cell, g.*
        FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :reasons::text[], :waits::interval[], :graces::interval[])
            AS g (job_id, fire_at, reason, wait, grace)
        OFFSET 0
    ) AS m
    JOIN executions e ON e.cell = ANY (ARRAY[m.cell]) AND e.job_id = m.job_id AND e.fire_at = m.fire_at
    WHERE e.started_at IS NULL AND e.attempt = 1 AND e.missed_after IS NOT NULL
), ended AS (
    DELETE FROM executions e USING asked a CROSS JOIN LATERAL never_started('skipped', a.reason) AS ending
    WHERE e.ctid = a.ctid AND a.reason IS NOT NULL
    RETURNING e.*, ending.*
), kept AS (
    \ir move_to_history.sql
), uncounted AS (
    UPDATE jobs j SET fire_count = j.fire_count - d.number
    FROM (SELECT cell, tenant_id, job_id, count(*) AS number FROM ended GROUP BY cell, tenant_id, job_id OFFSET 0) AS d
    WHERE j.cell = ANY (ARRAY[d.cell]) AND j.tenant_id = ANY (ARRAY[d.tenant_id]) AND j.id = d.job_id
), late AS (
    UPDATE executions e
    SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, cause = 'catch_up', priority = :catch_up_priority,
        waits = ended_waits(e.waits, e.late_for, e.run_at, tocsin_now()), late_for = NULL,
        run_at = tocsin_now() + a.wait, missed_after = tocsin_now() + a.wait + a.grace
    FROM asked a WHERE e.ctid = a.ctid AND a.reason IS NULL
    RETURNING e.queue, e.tenant_id, e.route
), lane AS (
    INSERT INTO lanes (cell, queue, priority, tenant_id, route)
    SELECT DISTINCT :cell::smallint, queue, :catch_up_priority::smallint, tenant_id, route FROM late ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (cell, queue, priority, tenant_id, route) DO UPDATE SET used_at = tocsin_now()
)
SELECT (SELECT count(*) FROM late)::integer AS late, (SELECT count(*) FROM ended)::integer AS dropped,
       (SELECT array_agg(DISTINCT job_id) FROM ended WHERE overlap IS NOT NULL) AS passed_on,
       CASE WHEN EXISTS (SELECT FROM late) THEN pg_notify('tocsin', 'ready') END AS notice
