-- Make room for the newest of the claims that ask for their job's turn: older executions of the job are asked
-- to stop if they run, and called off if they have not started or wait for another attempt. Runs inside the
-- transaction that decides about the jobs: before the turn is granted, and again for claims that did not get
-- it. A claim that was lost meanwhile makes no room. What has been missed is left to its misfire policy.
-- Caller: Turns._replace_older.
-- Locks: the older executions, by job.
-- Index: executions_pkey, one range per job.
-- Zero rows: no running execution had to be asked to stop.
WITH newest AS (
    SELECT e.cell, e.job_id, max(e.fire_at) AS fire_at
    FROM (
        SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[])
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
), ended AS (
    DELETE FROM executions e
    USING newest n, never_started('cancelled', 'replaced by a newer execution') AS ending
    WHERE e.cell = ANY (ARRAY[n.cell]) AND e.job_id = n.job_id AND e.fire_at < n.fire_at AND e.overlap = 'replace'
      AND e.started_at IS NULL AND e.due_at <= tocsin_now()
      AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now())
    RETURNING e.*, ending.*
), kept AS (
    \ir move_to_history.sql
)
SELECT pg_notify('tocsin', 'stop') FROM asked LIMIT 1
