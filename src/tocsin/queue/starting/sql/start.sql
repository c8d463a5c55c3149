-- The fire-or-skip decision for executions that were claimed ahead of their instant. Runs a moment before the
-- instant, and the executions count as started on it. Limited executions come here with their slot, which is
-- good as long as the worker's node has not been fenced off (`slots_epoch`, NULL if none is needed). Rows
-- that were cancelled, paused, re-planned or reclaimed meanwhile, are past their latest start, or were
-- missed, are not returned and must not run. Repeating the statement with the same token is harmless, so an
-- answer that was lost can be asked for again.
-- Caller: Gate._start_limited, Starting.start.
-- Locks: the rows, in the order of the batch. A heap-only update: started_at is in no index.
-- Index: executions_pkey.
-- Zero rows: none of them may run.
WITH me AS (
    SELECT FROM nodes n WHERE n.id = :node_id AND n.slots_epoch = :slots_epoch FOR KEY SHARE
)
UPDATE executions e
SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at)),
    late_for = CASE WHEN e.started_at IS NULL AND e.run_at < tocsin_now() - interval '1 second'
                    THEN :late_for ELSE e.late_for END
FROM (
    SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS s
WHERE e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
  AND e.claim_token IS NOT DISTINCT FROM s.token
  AND NOT e.cancel_requested
  AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > greatest(tocsin_now(), e.run_at))
  AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now() OR e.started_at IS NOT NULL)
  AND (:slots_epoch::bigint IS NULL OR EXISTS (SELECT FROM me))
RETURNING s.place::integer - 1 AS place, e.started_at
