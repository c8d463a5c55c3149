-- The soonest deadline of a claim from $2 to $3, if there is one, and the transactions that were under way at this look.
-- Called by PostgresQueue.soonest_deadline. Locks nothing. Index: executions_deadline, from the floor: dead entries below are
-- not walked.
SELECT (
    SELECT e.deadline_at FROM executions e
    WHERE e.cell = $1 AND e.claim_token IS NOT NULL AND e.deadline_at >= $2 AND e.deadline_at <= $3
    ORDER BY e.deadline_at
    LIMIT 1
) AS soonest,
ARRAY (SELECT x::text::bigint FROM pg_snapshot_xip(pg_current_snapshot()) AS x) AS under_way
