-- Give the pause of a queue another end, and another reason if one is given. It goes on being the same pause.
-- Caller: QueueStore.pause.
-- Locks: the queue's row.
-- Index: queues_pkey.
-- Zero rows: it is not paused any more.
UPDATE queues AS q SET paused_until = $3, reason = coalesce($4, q.reason)
WHERE q.tenant_id = $1 AND q.name = $2 AND q.paused_at IS NOT NULL
RETURNING q.*, pg_notify('tocsin', 'queues')
