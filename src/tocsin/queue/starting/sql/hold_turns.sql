-- Keep the executions that have the turn of these jobs from ending until commit: a claim that is refused for
-- the sake of one is put back before that one passes the turn on. Runs after `hold_jobs`, whose rows are
-- deleted here: the deletion is seen at commit, and until then other workers wait for the rows all the same.
-- Caller: Turns.decide.
-- Locks: these executions, by job, before any other; no weaker than `grant_turns` needs them, which marks
-- them.
-- Index: executions_turn.
-- Zero rows: every turn is free.
WITH done AS (
    DELETE FROM deciding d
    USING (SELECT :cell::smallint AS cell, g.id FROM unnest(:job_ids::uuid[]) AS g (id) OFFSET 0) AS j
    WHERE d.cell = ANY (ARRAY[j.cell]) AND d.job_id = j.id
)
SELECT FROM (SELECT DISTINCT g.id FROM unnest(:job_ids::uuid[]) AS g (id) ORDER BY g.id OFFSET 0) AS j
CROSS JOIN LATERAL (
    SELECT FROM executions h WHERE h.cell = :cell AND h.job_id = j.id AND h.has_turn FOR NO KEY UPDATE
) AS holder
