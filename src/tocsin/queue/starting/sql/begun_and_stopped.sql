-- Of claims whose start had no answer: those that it started and that were asked to stop since. Runs after
-- the start was asked for again, which waited for the first one.
-- Caller: begun.begun_and_stopped.
-- Locks: nothing.
-- Index: executions_pkey.
-- Zero rows: none of them runs without its worker's knowledge.
SELECT s.place::integer - 1 AS place, e.started_at
FROM (
    SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS s
JOIN executions e ON e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
WHERE e.claim_token IS NOT DISTINCT FROM s.token AND e.started_at IS NOT NULL AND e.cancel_requested
