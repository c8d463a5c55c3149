-- Start claims of jobs that must not overlap if nothing holds them back: they have their slots, and no other execution of
-- their job has the floor or comes before them. Whatever is not as simple is left alone and decided one by one.
-- Called by Gate with claims sorted by job: floors are taken in the order in which others take them. Should somebody take one
-- unseen, the index of floors refuses all of it.
-- Slots are good as long as the worker's node has not been fenced off ($6: the epoch under which it has them; NULL if none
-- of the claims needs a slot). Repeating it with the same token is harmless.
WITH me AS MATERIALIZED (
    SELECT FROM nodes n WHERE n.id = $5 AND n.slots_epoch = $6 FOR KEY SHARE
), alone AS MATERIALIZED (
    SELECT e.ctid, s.token, s.place
    FROM (
        SELECT $1::smallint AS cell, g.*
        FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[]) WITH ORDINALITY AS g (job_id, fire_at, token, place)
        OFFSET 0
    ) AS s
    JOIN executions e ON e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
    WHERE e.claim_token IS NOT DISTINCT FROM s.token
      AND ($6::bigint IS NULL OR EXISTS (SELECT FROM me))
      AND (e.has_floor OR NOT EXISTS (
        SELECT FROM executions w
        WHERE w.cell = s.cell AND w.job_id = s.job_id AND w.fire_at <> s.fire_at AND (w.fire_at < s.fire_at OR w.has_floor)
        OFFSET 0))
)
UPDATE executions e
SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at)), has_floor = true, floor_awaited = true,
    late_for = CASE WHEN e.started_at IS NULL AND e.run_at < tocsin_now() - interval '1 second' THEN $7 ELSE e.late_for END
FROM alone a
WHERE e.ctid = a.ctid AND e.claim_token IS NOT DISTINCT FROM a.token
  AND NOT e.cancel_requested AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > greatest(tocsin_now(), e.run_at))
  AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now() OR e.started_at IS NOT NULL)
RETURNING a.place::integer - 1 AS place, e.started_at
