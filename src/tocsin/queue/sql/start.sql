-- The fire-or-skip decision for executions claimed ahead. Called by PostgresQueue.start a moment before their instant, and
-- they count as started on the instant. Called by Gate for those that have their slot: it is good as long as the worker's
-- node has not been fenced off ($6: the epoch under which it has slots; NULL if none is needed).
-- Locks: the rows, by primary key. A heap-only update: started_at is in no index. Rows that were cancelled,
-- paused, re-planned or reclaimed meanwhile, or are past their latest start or were missed, are not returned and must not run.
-- Repeating it with the same token is harmless, so an answer lost on the way can be asked for again.
WITH me AS (
    SELECT FROM nodes n WHERE n.id = $5 AND n.slots_epoch = $6 FOR KEY SHARE
)
UPDATE executions e
SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at)),
    late_for = CASE WHEN e.started_at IS NULL AND e.run_at < tocsin_now() - interval '1 second' THEN $7 ELSE e.late_for END
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS s
WHERE e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
  AND e.claim_token IS NOT DISTINCT FROM s.token
  AND NOT e.cancel_requested AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > greatest(tocsin_now(), e.run_at))
  AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now() OR e.started_at IS NOT NULL)
  AND ($6::bigint IS NULL OR EXISTS (SELECT FROM me))
RETURNING s.place::integer - 1 AS place, e.started_at
