-- Move finished executions from live to history. Only what ran ends as having run, and what ran does not
-- expire; a task that ran may say that there was nothing to do.
-- Caller: Reclaiming.reclaim, Settling.finish, Turns._refuse.
-- Locks: the rows, in the order of the batch. The token fences: a row whose claim passed to another worker is
-- not touched.
-- Index: executions_pkey.
-- Zero rows: never. It returns how many moved, the caller looks up the others when the number falls short;
-- and the jobs that must not overlap, of which others may wait for their turn.
WITH done AS (
    SELECT :cell::smallint AS cell, g.*
    FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[], :states::text[],
                :finished_ats::timestamptz[], :outcomes::jsonb[], :reasons::text[], :fingerprints::text[],
                :versions::integer[], :fired_ats::timestamptz[])
        AS g (job_id, fire_at, token, state, finished_at, outcome, reason, error_fingerprint, job_version, fired_at)
    OFFSET 0
), ended AS (
    DELETE FROM executions e USING done d
    WHERE e.cell = ANY (ARRAY[d.cell]) AND e.job_id = d.job_id AND e.fire_at = d.fire_at
      AND e.claim_token IS NOT DISTINCT FROM d.token
      AND CASE WHEN e.started_at IS NULL THEN d.state IN ('expired', 'skipped') ELSE d.state <> 'expired' END
    RETURNING e.*, d.state, d.finished_at, d.outcome, d.error_fingerprint, d.job_version, d.fired_at, true AS settled,
              CASE WHEN d.state = 'cancelled' THEN coalesce(e.cancel_reason, d.reason) ELSE d.reason END AS reason
), kept AS (
    \ir move_to_history.sql
)
SELECT count(*)::integer AS moved, array_agg(job_id) FILTER (WHERE overlap IS NOT NULL) AS awaited FROM ended
