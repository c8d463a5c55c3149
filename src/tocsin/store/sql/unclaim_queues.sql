-- Take executions of paused queues back from workers that claimed them ahead: inside the pausing transaction
-- for its queue ($2, $3), and a moment later for all that were paused since $4, for a worker may have claimed
-- by what it had seen before. A worker that asks to start one finds its token gone. run_at is brought up to
-- now at least, for the lanes' low marks.
-- Caller: QueueStore.pause, QueueStore.take_back_stragglers.
-- Locks: the rows, without waiting: one that is locked is being started, or settled, at this moment.
-- Index: executions_deadline, queues_pkey. The first is read over all that is claimed.
-- Zero rows: nothing was claimed ahead.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, run_at = greatest(e.run_at, tocsin_now())
WHERE e.ctid = ANY (ARRAY (
    SELECT c.ctid
    FROM executions c
    JOIN queues q ON q.tenant_id = c.tenant_id AND q.name = c.queue
    WHERE c.cell = $1 AND c.deadline_at IS NOT NULL AND c.claim_token IS NOT NULL AND c.started_at IS NULL
      AND q.paused_at >= $4 AND ($2::integer IS NULL OR q.tenant_id = $2) AND ($3::text IS NULL OR q.name = $3)
    FOR UPDATE OF c SKIP LOCKED))
RETURNING 1
