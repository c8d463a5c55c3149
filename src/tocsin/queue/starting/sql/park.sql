-- Put claims back until they may start: at a reserved instant of their rate, or when a slot or turn may be
-- free. Fenced by token. A started execution is not put back. The execution came in time, and waits because
-- its job asks for that: however long it takes, it will not have been missed.
-- Caller: parking.park.
-- Locks: the rows, in the order of the batch.
-- Index: executions_pkey.
-- Zero rows: it returns none.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, run_at = greatest(p.run_at, tocsin_now()),
    waits_for = :reason, late_for = NULL, missed_after = NULL,
    waits = further_wait(e.waits, e.late_for, e.run_at, :reason, tocsin_now())
FROM (
    SELECT :cell::smallint AS cell, g.*
    FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[], :run_ats::timestamptz[])
        AS g (job_id, fire_at, token, run_at) OFFSET 0
) AS p
WHERE e.cell = ANY (ARRAY[p.cell]) AND e.job_id = p.job_id AND e.fire_at = p.fire_at
  AND e.claim_token IS NOT DISTINCT FROM p.token
  AND e.started_at IS NULL
