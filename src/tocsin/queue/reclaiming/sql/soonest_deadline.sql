-- The soonest deadline of a claim between the low mark and `until`, if there is one, and since when the
-- oldest transaction of the fleet is under way that writes. Other programs' transactions set no deadlines,
-- and may stay open for hours; those of another role than ours are not seen.
-- Caller: Reclaiming.soonest_deadline.
-- Locks: nothing.
-- Index: executions_deadline, from the low mark: dead entries below are not walked.
-- Zero rows: never, one row always.
SELECT (
    SELECT e.deadline_at FROM executions e
    WHERE e.cell = :cell AND e.claim_token IS NOT NULL AND e.deadline_at >= :low_mark AND e.deadline_at <= :until
    ORDER BY e.deadline_at
    LIMIT 1
) AS soonest, (
    SELECT min(a.xact_start) FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name LIKE 'tocsin %' AND a.backend_xid IS NOT NULL
) AS under_way_since
