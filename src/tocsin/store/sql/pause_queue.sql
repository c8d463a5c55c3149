-- Pause a queue of a tenant, which need not have been heard of before. Runs inside the pausing transaction.
-- Caller: QueueStore.pause.
-- Locks: the queue's row.
-- Index: queues_pkey.
-- Zero rows: it is paused already.
INSERT INTO queues AS q (tenant_id, name, paused_at, reason, paused_until, paused_by)
VALUES ($1, $2, tocsin_now(), $3, $4, $5)
ON CONFLICT (tenant_id, name) DO UPDATE
SET paused_at = excluded.paused_at, reason = excluded.reason, paused_until = excluded.paused_until,
    paused_by = excluded.paused_by
WHERE q.paused_at IS NULL
RETURNING q.*, pg_notify('tocsin', 'queues')
