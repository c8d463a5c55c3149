-- Give slots back, and let as many waiting executions of their keys try again. Called inside the transaction in
-- which the attempts ended; the token keeps a late worker from freeing a slot that is somebody else's by now.
-- Whoever does not know the slot ($7) has all of the key looked at. Index: executions_waiting, one probe per key,
-- if anybody waits at all.
WITH freed AS (
    UPDATE limit_slots s SET job_id = NULL, fire_at = NULL, claim_token = NULL
    FROM (
        SELECT $1::smallint AS cell, g.*
        FROM unnest($2::integer[], $3::text[], $4::uuid[], $5::timestamptz[], $6::bigint[], $7::smallint[])
            AS g (tenant_id, key, job_id, fire_at, token, slot)
        OFFSET 0
    ) AS d
    WHERE s.cell = ANY (ARRAY[d.cell]) AND s.tenant_id = d.tenant_id AND s.key = d.key
      AND s.slot BETWEEN coalesce(d.slot, 0::smallint) AND coalesce(d.slot, 32767::smallint)
      AND s.job_id = d.job_id AND s.fire_at = d.fire_at AND s.claim_token = d.token
    RETURNING s.tenant_id, s.key
), turn AS (
    UPDATE executions e SET run_at = tocsin_now()
    FROM (
        SELECT w.ctid
        FROM (
            SELECT tenant_id, key, count(*) AS number FROM freed
            WHERE EXISTS (SELECT FROM executions e WHERE e.cell = $1 AND e.claim_token IS NULL AND e.waits_for = 'slot')
            GROUP BY tenant_id, key
        ) AS k
        CROSS JOIN LATERAL (
            SELECT e.ctid FROM executions e
            WHERE e.cell = $1 AND e.tenant_id = k.tenant_id AND e.limit_key = k.key AND e.claim_token IS NULL
              AND e.waits_for = 'slot' AND e.run_at > tocsin_now()
            ORDER BY e.due_at LIMIT k.number FOR UPDATE SKIP LOCKED
        ) AS w
        OFFSET 0
    ) AS next
    WHERE e.ctid = next.ctid
    RETURNING 1
)
SELECT count(*)::integer AS turns, CASE WHEN count(*) > 0 THEN pg_notify('tocsin', 'ready') END FROM turn
