-- What is due and waits, by lane: of one tenant or, without $2, of all; of one queue or, without $3, of all.
-- $5 rows of a lane are read at most, of $6 lanes at most: the cost does not grow with the backlog. `missed`
-- are those of the counted that their misfire policy will decide about.
-- Caller: QueueStore.depths.
-- Locks: nothing.
-- Index: executions_ready, one range per lane.
-- Zero rows: no lane, which is to say that nothing used these queues for an hour.
SELECT l.tenant_id, l.queue, l.priority, waiting.*
FROM (
    SELECT l.tenant_id, l.queue, l.priority FROM lanes l
    WHERE l.cell = $1 AND ($2::integer IS NULL OR l.tenant_id = $2) AND ($3::text IS NULL OR l.queue = $3)
    GROUP BY 1, 2, 3 ORDER BY 2, 3, 1 LIMIT $6
) AS l
CROSS JOIN LATERAL (
    SELECT least(count(*), $5)::integer AS due, count(*) > $5 AS capped, min(e.run_at) AS oldest,
           least(count(*) FILTER (WHERE e.missed_after < $4), $5)::integer AS missed
    FROM (
        SELECT ready.*
        FROM lanes r CROSS JOIN LATERAL (
            SELECT e.run_at, e.missed_after FROM executions e
            WHERE e.cell = $1 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id
              AND e.route = r.route AND e.claim_token IS NULL AND e.run_at <= $4
            ORDER BY e.run_at LIMIT $5 + 1
        ) AS ready
        WHERE r.cell = $1 AND r.queue = l.queue AND r.priority = l.priority AND r.tenant_id = l.tenant_id
    ) AS e
) AS waiting
