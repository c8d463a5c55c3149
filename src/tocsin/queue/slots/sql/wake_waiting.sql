-- Let waiting executions of these keys try again: `numbers` of each, as long as the key has free slots. Runs
-- after slots were given back, and after executions were put back to wait for one; both must be committed
-- before. The latter (`refused`) also lets all workers know that an execution waits: one of them may have
-- slots of the key that it does not use.
-- Caller: waking.wake.
-- Locks: the chosen executions, skipping those that another transaction holds.
-- Index: executions_waiting, one range per key.
-- Zero rows: never; it returns how many were woken.
WITH woken AS (
    UPDATE executions e SET run_at = tocsin_now()
    FROM (
        SELECT w.ctid
        FROM unnest(:tenant_ids::integer[], :keys::text[], :slot_counts::integer[], :numbers::integer[]) AS k (tenant_id, key, slots, number)
        CROSS JOIN LATERAL (
            SELECT e.ctid FROM executions e
            WHERE e.cell = :cell AND e.tenant_id = k.tenant_id AND e.limit_key = k.key AND e.claim_token IS NULL
              AND e.waits_for = 'slot' AND e.run_at > tocsin_now()
            ORDER BY e.due_at
            LIMIT (SELECT count(*) FROM (
                       SELECT FROM slots s
                       WHERE s.cell = :cell AND s.tenant_id = k.tenant_id AND s.key = k.key AND s.slot <= k.slots
                         AND s.epoch IS NULL
                       LIMIT k.number) AS free)
            FOR UPDATE SKIP LOCKED
        ) AS w
        OFFSET 0
    ) AS next
    WHERE e.ctid = next.ctid
    RETURNING 1
)
SELECT count(*)::integer AS woken, CASE WHEN count(*) > 0 THEN pg_notify('tocsin', 'ready') END,
       CASE WHEN :refused THEN pg_notify('tocsin', 'slots') END
FROM woken
