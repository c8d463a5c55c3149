-- Let a paused queue go on, and keep its pause for `explain`. Runs inside the resuming transaction. With $4,
-- only if the pause should have ended by then.
-- Caller: QueueStore.resume.
-- Locks: the queue's row.
-- Index: queues_pkey.
-- Zero rows: it is not paused (any more).
WITH held AS MATERIALIZED (
    SELECT * FROM queues
    WHERE tenant_id = $1 AND name = $2 AND paused_at IS NOT NULL AND ($4::timestamptz IS NULL OR paused_until <= $4)
    FOR UPDATE
), free AS (
    UPDATE queues q SET paused_at = NULL, reason = NULL, paused_until = NULL, paused_by = NULL
    FROM held h WHERE q.tenant_id = h.tenant_id AND q.name = h.name
), kept AS (
    INSERT INTO queue_pauses (tenant_id, queue, paused_at, resumed_at, paused_by, resumed_by, reason)
    SELECT tenant_id, name, paused_at, tocsin_now(), coalesce(paused_by, 'system'), $3, reason FROM held
)
SELECT h.*, pg_notify('tocsin', 'queues ready') FROM held h
