-- Start claims of jobs that must not overlap, if no other execution of their job has the turn. Runs in one
-- transaction after `hold_jobs` and `hold_turns`: until commit no other worker decides about these jobs. Of
-- several claims of one job the earliest is considered. Under `queue` no execution overtakes one that is due
-- and has not started, even if another worker is about to start that one. The execution that has the turn
-- already (it is back for another attempt) comes before both: an earlier one may wait for it. A claim that is
-- refused for the sake of an earlier execution wakes that one, in case it is asleep, and leaves word that it
-- waits: the turn is free then, so no ending execution will do it. Returns all that may ask, without a start
-- time, and those that started, with one: joining the two would compare each with each. What is not returned
-- at all was lost; a worker may ask with a claim that it lost beside one that counts. Slots are good as long
-- as the worker's node has not been fenced off (`slots_epoch`, NULL if no claim needs one).
-- Caller: Turns._grant.
-- Locks: executions that have a turn, against ending, since others may have begun meanwhile; then those that
-- come before the claimed rows, against being started by a claim that is under way; then the claimed rows.
-- Index: executions_turn, executions_pkey.
-- Zero rows: every claim was lost.
WITH me AS MATERIALIZED (
    SELECT FROM nodes n WHERE n.id = :node_id AND n.slots_epoch = :slots_epoch FOR KEY SHARE
), holder AS MATERIALIZED (
    SELECT h.*
    FROM (SELECT DISTINCT g.id FROM unnest(:job_ids::uuid[]) AS g (id) ORDER BY g.id OFFSET 0) AS j
    CROSS JOIN LATERAL (
        SELECT h.cell, h.job_id, h.fire_at FROM executions h
        WHERE h.cell = :cell AND h.job_id = j.id AND h.has_turn
        FOR NO KEY UPDATE
    ) AS h
), given AS MATERIALIZED (
    SELECT :cell::smallint AS cell, g.*
    FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[]) AS g (job_id, fire_at, token)
    WHERE (SELECT count(*) FROM holder) >= 0
    ORDER BY g.job_id, g.fire_at
), earlier AS MATERIALIZED (
    SELECT g.job_id, g.fire_at, w.fire_at AS earlier_at
    FROM given g
    CROSS JOIN LATERAL (
        SELECT w.fire_at FROM executions w
        WHERE w.cell = :cell AND w.job_id = g.job_id AND w.fire_at < g.fire_at AND w.overlap = 'queue'
          AND w.started_at IS NULL AND w.due_at <= tocsin_now()
        ORDER BY w.fire_at
        LIMIT 1
        FOR KEY SHARE
    ) AS w
    WHERE g.job_id NOT IN (SELECT job_id FROM holder)
), asked AS MATERIALIZED (
    SELECT s.job_id, s.fire_at, s.token, e.overlap
    FROM (SELECT * FROM given WHERE (SELECT count(*) FROM earlier) >= 0 OFFSET 0) AS s
    JOIN executions e ON e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
    WHERE e.claim_token IS NOT DISTINCT FROM s.token AND NOT e.cancel_requested
      AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > greatest(tocsin_now(), e.run_at))
      AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now() OR e.started_at IS NOT NULL)
      AND (:slots_epoch::bigint IS NULL OR EXISTS (SELECT FROM me))
    ORDER BY s.job_id, s.fire_at
    FOR UPDATE OF e
), overtaking AS MATERIALIZED (
    SELECT a.job_id, a.fire_at FROM asked a
    WHERE a.overlap = 'queue' AND (a.job_id, a.fire_at) IN (SELECT job_id, fire_at FROM earlier)
), first AS MATERIALIZED (
    SELECT DISTINCT ON (a.job_id) :cell::smallint AS cell, a.job_id, a.fire_at FROM asked a
    WHERE (a.job_id, a.fire_at) IN (SELECT job_id, fire_at FROM holder)
       OR a.job_id NOT IN (SELECT job_id FROM holder)
          AND (a.job_id, a.fire_at) NOT IN (SELECT job_id, fire_at FROM overtaking)
    ORDER BY a.job_id, a.fire_at
), started AS (
    UPDATE executions e
    SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at)), has_turn = true, turn_awaited = true,
        late_for = CASE WHEN e.started_at IS NULL AND e.run_at < tocsin_now() - interval '1 second'
                        THEN :late_for ELSE e.late_for END
    FROM first f
    WHERE e.cell = ANY (ARRAY[f.cell]) AND e.job_id = f.job_id AND e.fire_at = f.fire_at
    RETURNING e.job_id, e.fire_at, e.claim_token, e.started_at
), hurried AS (
    UPDATE executions e
    SET turn_awaited = true,
        run_at = CASE WHEN e.waits_for = 'turn' THEN least(e.run_at, h.now) ELSE e.run_at END,
        claim_token = CASE WHEN e.waits_for = 'turn' AND e.run_at > h.now THEN NULL ELSE e.claim_token END,
        node_id = CASE WHEN e.waits_for = 'turn' AND e.run_at > h.now THEN NULL ELSE e.node_id END,
        worker_id = CASE WHEN e.waits_for = 'turn' AND e.run_at > h.now THEN NULL ELSE e.worker_id END,
        deadline_at = CASE WHEN e.waits_for = 'turn' AND e.run_at > h.now THEN NULL ELSE e.deadline_at END
    FROM (
        SELECT DISTINCT ON (b.job_id, b.earlier_at) :cell::smallint AS cell, b.job_id, b.earlier_at, tocsin_now() AS now
        FROM earlier b
        WHERE (b.job_id, b.fire_at) IN (SELECT job_id, fire_at FROM overtaking)
          AND (b.job_id, b.earlier_at) NOT IN (SELECT job_id, fire_at FROM asked)
        OFFSET 0
    ) AS h
    WHERE e.cell = ANY (ARRAY[h.cell]) AND e.job_id = h.job_id AND e.fire_at = h.earlier_at AND e.started_at IS NULL
      AND (NOT e.turn_awaited OR e.waits_for = 'turn' AND e.run_at > h.now)
    RETURNING pg_notify('tocsin', 'ready')
), awaited AS (
    UPDATE executions e SET turn_awaited = true
    FROM holder h
    WHERE e.cell = ANY (ARRAY[h.cell]) AND e.job_id = h.job_id AND e.fire_at = h.fire_at AND NOT e.turn_awaited
      AND h.job_id NOT IN (SELECT job_id FROM first)
      -- A CASE, so that the planner cannot turn the condition into a join, which compares each with each in any order.
      AND CASE WHEN h.job_id IN (SELECT job_id FROM asked WHERE overlap <> 'skip') THEN true END
)
SELECT job_id, fire_at, token, NULL::timestamptz AS started_at FROM asked
UNION ALL
SELECT job_id, fire_at, claim_token, started_at FROM started
