-- Which of some executions are live no more. Asked many times a second while clients wait for results.
-- Caller: ExecutionStore.over.
-- Locks: nothing.
-- Index: executions_pkey.
-- Zero rows: all of them are live.
SELECT w.place::integer - 1 AS place
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[])
        WITH ORDINALITY AS g (job_id, fire_at, place) OFFSET 0
) AS w
LEFT JOIN executions e ON e.cell = ANY (ARRAY[w.cell]) AND e.job_id = w.job_id AND e.fire_at = w.fire_at
WHERE e.job_id IS NULL
