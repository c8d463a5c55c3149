-- Let waiting executions of these keys try again, so many of each ($5) as long as the key has free slots. Called by
-- Slots.wake_waiting after slots were given back, and after executions were put back to wait for one; both must be
-- committed before. The latter ($6) leaves it to whoever has a slot of the key, and will look here when giving it back.
-- Locks: the chosen executions, skipping those that somebody else holds. Index: executions_waiting, one probe to see
-- whether anybody waits at all, one per key.
WITH woken AS (
    UPDATE executions e SET run_at = tocsin_now()
    FROM (
        SELECT w.ctid
        FROM (
            SELECT g.* FROM unnest($2::integer[], $3::text[], $4::integer[], $5::integer[])
                AS g (tenant_id, key, slots, number)
            WHERE EXISTS (SELECT FROM executions e WHERE e.cell = $1 AND e.claim_token IS NULL AND e.waits_for = 'slot')
              AND EXISTS (
                SELECT FROM executions e
                WHERE e.cell = $1 AND e.tenant_id = g.tenant_id AND e.limit_key = g.key AND e.claim_token IS NULL
                  AND e.waits_for = 'slot'
                OFFSET 0)
              AND NOT ($6 AND EXISTS (
                SELECT FROM limit_slots s
                WHERE s.cell = $1 AND s.tenant_id = g.tenant_id AND s.key = g.key AND s.slot <= g.slots
                  AND s.job_id IS NOT NULL
                OFFSET 0))
            OFFSET 0
        ) AS k
        CROSS JOIN LATERAL (
            SELECT e.ctid FROM executions e
            WHERE e.cell = $1 AND e.tenant_id = k.tenant_id AND e.limit_key = k.key AND e.claim_token IS NULL
              AND e.waits_for = 'slot' AND e.run_at > tocsin_now()
            ORDER BY e.due_at
            LIMIT (SELECT count(*) FROM (
                       SELECT FROM limit_slots s
                       WHERE s.cell = $1 AND s.tenant_id = k.tenant_id AND s.key = k.key AND s.slot <= k.slots
                         AND s.job_id IS NULL
                       LIMIT k.number) AS free)
            FOR UPDATE SKIP LOCKED
        ) AS w
        OFFSET 0
    ) AS next
    WHERE e.ctid = next.ctid
    RETURNING 1
)
SELECT count(*)::integer AS woken, CASE WHEN count(*) > 0 THEN pg_notify('tocsin', 'ready') END FROM woken
