-- Heartbeat: move the deadlines of claims that are held or running for long. Returns which places of the
-- batch are still held, and which of them should stop.
-- Caller: Claiming.extend.
-- Locks: the rows, in the order of the batch; fenced by token.
-- Index: executions_pkey.
-- Zero rows: every claim was lost.
UPDATE executions e
SET deadline_at = tocsin_now() + :ttl::interval
FROM (
    SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS h
WHERE e.cell = ANY (ARRAY[h.cell]) AND e.job_id = h.job_id AND e.fire_at = h.fire_at
  AND e.claim_token IS NOT DISTINCT FROM h.token
RETURNING h.place::integer - 1 AS place, e.cancel_requested, e.deadline_at
