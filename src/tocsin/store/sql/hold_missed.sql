-- Missed executions that are about to be decided. `decide_missed` is a statement of its own, after this one,
-- because a statement does not see the row that it waited for: what another transaction had changed meanwhile
-- would be left out.
-- Caller: misfires.write_decisions.
-- Locks: the executions, in the order that all statements keep.
-- Index: executions_pkey.
-- Zero rows: all of them have ended.
SELECT
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[]) AS g (job_id, fire_at) OFFSET 0
) AS m
JOIN executions e ON e.cell = ANY (ARRAY[m.cell]) AND e.job_id = m.job_id AND e.fire_at = m.fire_at
ORDER BY e.has_turn DESC, e.job_id, e.fire_at
FOR UPDATE OF e
