-- The short form of `finish` for executions that succeeded and have nothing more to tell: the same fenced
-- move from live to history with four columns to send instead of ten, which under a drain is a tenth of all
-- the work. `fired_ats` is empty unless some were started ahead of their instant.
-- Caller: Settling.succeed.
-- Locks: the rows, in the order of the batch; fenced by token.
-- Index: executions_pkey.
-- Zero rows: never. It returns how many moved, the caller looks up the others when the number falls short;
-- and the jobs that must not overlap of which others may wait for their turn.
WITH ended AS (
    DELETE FROM executions e
    USING (
        SELECT :cell::smallint AS cell, g.*
        FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[], :versions::integer[],
                    :fired_ats::timestamptz[])
            AS g (job_id, fire_at, token, job_version, fired_at) OFFSET 0
    ) AS d
    WHERE e.cell = ANY (ARRAY[d.cell]) AND e.job_id = d.job_id AND e.fire_at = d.fire_at
      AND e.claim_token IS NOT DISTINCT FROM d.token
      AND e.started_at IS NOT NULL
    RETURNING e.*, 'succeeded' AS state, :finished_at::timestamptz AS finished_at, NULL::jsonb AS outcome,
              NULL::text AS reason, NULL::text AS error_fingerprint, d.job_version, d.fired_at, true AS settled
), kept AS (
    \ir move_to_history.sql
)
SELECT count(*)::integer AS moved, array_agg(job_id) FILTER (WHERE turn_awaited) AS awaited FROM ended
