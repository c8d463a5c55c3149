-- The soonest deadline of a claim from $2 to $3, if there is one, and since when the oldest transaction of the fleet is under
-- way that writes. Called by PostgresQueue.soonest_deadline. Locks nothing. Index: executions_deadline, from the floor: dead
-- entries below are not walked.
-- Other people's transactions set no deadlines, and may stay open for hours. Who has another role than ours is not seen.
SELECT (
    SELECT e.deadline_at FROM executions e
    WHERE e.cell = $1 AND e.claim_token IS NOT NULL AND e.deadline_at >= $2 AND e.deadline_at <= $3
    ORDER BY e.deadline_at
    LIMIT 1
) AS soonest, (
    SELECT min(a.xact_start) FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name LIKE 'tocsin %' AND a.backend_xid IS NOT NULL
) AS under_way_since
