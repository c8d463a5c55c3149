-- The fire-or-skip decision for executions claimed ahead. Called by PostgresQueue.start at their instant; for `exact`
-- ones a moment before, and they count as started on the instant.
-- Locks: the rows, by primary key. A heap-only update: started_at is in no index. Rows that were cancelled,
-- paused, re-planned or reclaimed meanwhile, or are past their latest start, are not returned and must not run.
-- Repeating it with the same token is harmless, so an answer lost on the way can be asked for again.
UPDATE executions e
SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at))
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
        WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
) AS s
WHERE e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
  AND e.claim_token IS NOT DISTINCT FROM s.token
  AND NOT e.cancel_requested AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > tocsin_now())
RETURNING s.place::integer - 1 AS place, e.started_at
