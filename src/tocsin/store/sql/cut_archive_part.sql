-- Where a part of a day ends: before the rows that would make it too many, or too large. All rows of a tenant
-- and an instant stay together, unless they alone are too many: then they are told apart by `tie`. The caller
-- puts in the_day, tenant_of, at_of, tie_of, size_of and within_bounds.
-- Caller: ArchiveStore._cut.
-- Locks: none.
-- Index: history_of_tenant; the audit log's days are sorted.
-- Zero rows: never, always one. Its columns are NULL if the rest of the day is one part.
WITH first AS MATERIALIZED (
    SELECT tenant_of AS tenant, at_of AS at, tie_of AS tie, size_of AS size
    FROM the_day WHERE within_bounds
    ORDER BY 1, 2, 3 LIMIT :rows
), measured AS (
    SELECT tenant, at, tie, row_number() OVER w AS number, sum(size) OVER w AS total
    FROM first WINDOW w AS (ORDER BY tenant, at, tie ROWS UNBOUNDED PRECEDING)
), ends AS (
    SELECT tenant, at, tie, number, total FROM measured
    WHERE number = :rows OR total >= :bytes ORDER BY number LIMIT 1
), earlier AS (
    SELECT m.tenant, m.at FROM measured m, ends e
    WHERE m.number < e.number AND (m.tenant, m.at) < (e.tenant, e.at) ORDER BY m.number DESC LIMIT 1
)
SELECT coalesce(r.tenant, e.tenant) AS tenant, coalesce(r.at, e.at) AS at,
       CASE WHEN r.at IS NULL THEN e.tie::text END AS tie
FROM (SELECT) AS always LEFT JOIN ends e ON true LEFT JOIN earlier r ON true
