-- Start claims of jobs that must not overlap if nothing holds them back: they have their slots, and no other
-- execution of their job has the turn or comes before them. Whatever is not as simple is left alone;
-- `grant_turns` decides about it. Takes claims sorted by job. If another transaction takes one of these turns
-- unseen, the index of turns refuses all of it. Repeating the statement with the same token is harmless.
-- Slots are good as long as the worker's node has not been fenced off (`slots_epoch`, NULL if no claim needs
-- a slot).
-- Caller: Turns.start_alone.
-- Locks: the rows, by job, in the order in which every statement takes turns.
-- Index: executions_pkey, executions_turn.
-- Zero rows: something is in the way of each.
WITH me AS MATERIALIZED (
    SELECT FROM nodes n WHERE n.id = :node_id AND n.slots_epoch = :slots_epoch FOR KEY SHARE
), alone AS MATERIALIZED (
    SELECT e.ctid, s.token, s.place
    FROM (
        SELECT :cell::smallint AS cell, g.*
        FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[])
            WITH ORDINALITY AS g (job_id, fire_at, token, place)
        OFFSET 0
    ) AS s
    JOIN executions e ON e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
    WHERE e.claim_token IS NOT DISTINCT FROM s.token
      AND (:slots_epoch::bigint IS NULL OR EXISTS (SELECT FROM me))
      AND (e.has_turn OR NOT EXISTS (
        SELECT FROM executions w
        WHERE w.cell = s.cell AND w.job_id = s.job_id AND w.fire_at <> s.fire_at
          AND (w.fire_at < s.fire_at OR w.has_turn)
        OFFSET 0))
)
UPDATE executions e
SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at)), has_turn = true, turn_awaited = true,
    late_for = CASE WHEN e.started_at IS NULL AND e.run_at < tocsin_now() - interval '1 second'
                    THEN :late_for ELSE e.late_for END
FROM alone a
WHERE e.ctid = a.ctid AND e.claim_token IS NOT DISTINCT FROM a.token
  AND NOT e.cancel_requested
  AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > greatest(tocsin_now(), e.run_at))
  AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now() OR e.started_at IS NOT NULL)
RETURNING a.place::integer - 1 AS place, e.started_at
