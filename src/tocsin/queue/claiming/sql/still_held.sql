-- Which places of a batch of claims are still held, and which of them should stop.
-- Caller: Holding.still_held.
-- Locks: nothing.
-- Index: executions_pkey.
-- Zero rows: every claim was lost, or settled.
SELECT h.place::integer - 1 AS place, e.cancel_requested
FROM (
    SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS h
JOIN executions e ON e.cell = ANY (ARRAY[h.cell]) AND e.job_id = h.job_id AND e.fire_at = h.fire_at
  AND e.claim_token IS NOT DISTINCT FROM h.token
