-- A tenant's executions that wait for their instant, soonest first, from $5 on: what is due is not to come,
-- and below it lie the dead entries of all that was drained. One probe per lane, $3 rows each. Claimed ones,
-- which are seconds away, come by their deadline, $4 rows at most.
-- Caller: StatsStore.upcoming.
-- Locks: nothing.
-- Index: executions_ready, executions_deadline.
-- Zero rows: nothing is planned.
SELECT p.job_id, p.fire_at, p.run_at, p.attempt, j.name FROM (
    (SELECT e.job_id, e.fire_at, e.run_at, e.attempt
     FROM (SELECT queue, priority, route FROM lanes WHERE cell = $1 AND tenant_id = $2) AS l
     CROSS JOIN LATERAL (
         SELECT e.job_id, e.fire_at, e.run_at, e.attempt FROM executions e
         WHERE e.cell = $1 AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = $2
           AND e.route = l.route AND e.claim_token IS NULL AND e.run_at >= $5
         ORDER BY e.run_at LIMIT $3) AS e
     ORDER BY e.run_at LIMIT $3)
    UNION ALL
    (SELECT c.job_id, c.fire_at, c.run_at, c.attempt
     FROM (SELECT e.tenant_id, e.job_id, e.fire_at, e.run_at, e.attempt, e.started_at FROM executions e
           WHERE e.cell = $1 AND e.claim_token IS NOT NULL ORDER BY e.deadline_at LIMIT $4) AS c
     WHERE c.tenant_id = $2 AND c.started_at IS NULL AND c.run_at >= $5 ORDER BY c.run_at LIMIT $3)
) AS p LEFT JOIN jobs j ON j.cell = $1 AND j.id = p.job_id
ORDER BY p.run_at LIMIT $3
