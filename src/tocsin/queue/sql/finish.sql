-- Move finished executions from live to history. Called by PostgresQueue and Gate.
-- Locks: the rows, by primary key. The token fences: a row whose claim passed to somebody else is not touched. Only
-- what ran ends as having run, and only what did not run ends as not having run.
-- Nothing ends before it began, even if the database's clock was set meanwhile and the worker has not heard of it.
-- Returns how many moved, the caller looks up the others when the number falls short; and the jobs that must not overlap, of
-- which others may wait for their turn.
WITH done AS (
    SELECT $1::smallint AS cell, g.*
    FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::text[], $6::timestamptz[],
                $7::jsonb[], $8::text[], $9::text[], $10::integer[], $11::timestamptz[])
        AS g (job_id, fire_at, token, state, finished_at, outcome, reason, fingerprint, version, fired_at)
    OFFSET 0
), gone AS (
    DELETE FROM executions e USING done d
    WHERE e.cell = ANY (ARRAY[d.cell]) AND e.job_id = d.job_id AND e.fire_at = d.fire_at
      AND e.claim_token IS NOT DISTINCT FROM d.token
      AND (e.started_at IS NULL) = (d.state IN ('expired', 'skipped'))
    RETURNING e.*, d.state, d.finished_at, d.outcome, d.fingerprint, d.version, d.fired_at,
              CASE WHEN d.state = 'cancelled' THEN coalesce(e.cancel_reason, d.reason) ELSE d.reason END AS reason
), kept AS (
    INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at,
                         finished_at, attempt, attempts, outcome, reason, error_fingerprint, claim_token,
                         node_id, job_version, origin_fire_at, backfill_id, waits, late_for)
    SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at,
           coalesce(fired_at, started_at), greatest(started_at, fired_at, finished_at), attempt, attempts, outcome, reason,
           fingerprint, claim_token, node_id, version, origin_fire_at, backfill_id,
           CASE WHEN fired_at > started_at + interval '1 second'
                THEN waits_until_called(waits, late_for, run_at, started_at, fired_at) ELSE waits END,
           CASE WHEN fired_at > started_at + interval '1 second' THEN NULL ELSE late_for END
    FROM gone
)
SELECT count(*)::integer AS moved, array_agg(job_id) FILTER (WHERE overlap IS NOT NULL) AS awaited FROM gone
