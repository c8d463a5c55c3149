-- What of a tenant's is running. Reads claimed executions, which are as many as workers hold, and $3 of them
-- at most.
-- Caller: StatsStore.load.
-- Locks: nothing.
-- Index: executions_deadline.
-- Zero rows: never; always one row.
SELECT (count(*) FILTER (WHERE c.tenant_id = $2 AND c.started_at IS NOT NULL))::integer AS number, count(*) >= $3 AS capped
FROM (SELECT e.tenant_id, e.started_at FROM executions e
      WHERE e.cell = $1 AND e.claim_token IS NOT NULL ORDER BY e.deadline_at LIMIT $3) AS c
