-- Give slots back, and let as many waiting executions of their keys try again. Called inside the transaction in
-- which the attempts ended; the token keeps a late worker from freeing a slot that is somebody else's by now.
WITH freed AS (
    UPDATE limit_slots s SET job_id = NULL, fire_at = NULL, claim_token = NULL
    FROM (
        SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
            AS g (job_id, fire_at, token) OFFSET 0
    ) AS d
    WHERE s.cell = ANY (ARRAY[d.cell]) AND s.job_id = d.job_id AND s.fire_at = d.fire_at AND s.claim_token = d.token
    RETURNING s.tenant_id, s.key
), turn AS (
    UPDATE executions e SET run_at = tocsin_now()
    FROM (SELECT tenant_id, key, count(*) AS number FROM freed GROUP BY tenant_id, key) AS k
    CROSS JOIN LATERAL (
        SELECT w.job_id, w.fire_at FROM executions w
        WHERE w.cell = $1 AND w.tenant_id = k.tenant_id AND w.limit_key = k.key AND w.claim_token IS NULL
          AND w.waits_for = 'slot' AND w.run_at > tocsin_now()
        ORDER BY w.due_at LIMIT k.number FOR UPDATE SKIP LOCKED
    ) AS next
    WHERE e.cell = $1 AND e.job_id = next.job_id AND e.fire_at = next.fire_at
    RETURNING 1
)
SELECT count(*)::integer AS turns, CASE WHEN count(*) > 0 THEN pg_notify('tocsin', 'ready') END FROM turn
