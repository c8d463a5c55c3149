-- Which of the executions that an operation fired are over, and how they ended: $4 at most, in the order of
-- their ends. Runs with the operation locked. A run without an end has been forgotten.
-- Caller: Acting._hear.
-- Locks: the rows of operation_runs.
-- Index: operation_runs_pkey, executions_pkey, history_of_job. The second is probed for each run; the third
-- on the days since $3.
-- Zero rows: none is over.
WITH over AS MATERIALIZED (
    SELECT r.ctid, r.job_id, r.fire_at FROM operation_runs r
    WHERE r.operation_id = $2 AND NOT EXISTS (
        SELECT FROM executions e WHERE e.cell = $1 AND e.job_id = r.job_id AND e.fire_at = r.fire_at OFFSET 0)
    LIMIT $4
), gone AS (
    DELETE FROM operation_runs WHERE ctid = ANY (ARRAY (SELECT ctid FROM over))
)
SELECT o.job_id, o.fire_at, h.state, h.reason
FROM over o LEFT JOIN LATERAL (
    SELECT h.state, h.reason, h.finished_at FROM history h
    WHERE h.cell = $1 AND h.job_id = o.job_id AND h.fire_at = o.fire_at AND h.finished_at >= $3
    ORDER BY h.finished_at DESC LIMIT 1
) AS h ON true
ORDER BY h.finished_at
