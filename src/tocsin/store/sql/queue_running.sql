-- What is running, by tenant and queue: of one tenant or, without $2, of all. Reads claimed executions, which
-- are as many as workers hold, and $3 of them at most; `read` says how many were read.
-- Caller: QueueStore.look.
-- Locks: nothing.
-- Index: executions_deadline.
-- Zero rows: nothing runs.
SELECT c.tenant_id, c.queue, count(*)::integer AS running, (SELECT count(*) FROM (
           SELECT FROM executions e WHERE e.cell = $1 AND e.claim_token IS NOT NULL LIMIT $3) AS all_claimed)::integer AS read
FROM (SELECT e.tenant_id, e.queue, e.started_at FROM executions e
      WHERE e.cell = $1 AND e.claim_token IS NOT NULL ORDER BY e.deadline_at LIMIT $3) AS c
WHERE c.started_at IS NOT NULL AND ($2::integer IS NULL OR c.tenant_id = $2)
GROUP BY 1, 2
