-- The keys that executions wait for a slot of. Executions that were woken already are not meant: they will
-- ask again. Asked whenever slots have become idle: the worker gives them back if another worker's execution
-- wants them.
-- Caller: waking.waiting_keys.
-- Locks: nothing.
-- Index: executions_waiting, from key to key, so that a key's backlog is not walked.
-- Zero rows: no execution waits for a slot.
WITH RECURSIVE waiting AS (
    (SELECT e.tenant_id, e.limit_key FROM executions e
     WHERE e.cell = :cell AND e.waits_for = 'slot' AND e.claim_token IS NULL AND e.run_at > tocsin_now()
     ORDER BY e.tenant_id, e.limit_key LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.limit_key
    FROM waiting w CROSS JOIN LATERAL (
        SELECT e.tenant_id, e.limit_key FROM executions e
        WHERE e.cell = :cell AND e.waits_for = 'slot' AND e.claim_token IS NULL AND e.run_at > tocsin_now()
          AND (e.tenant_id, e.limit_key) > (w.tenant_id, w.limit_key)
        ORDER BY e.tenant_id, e.limit_key LIMIT 1
    ) AS n
)
SELECT tenant_id, limit_key FROM waiting
