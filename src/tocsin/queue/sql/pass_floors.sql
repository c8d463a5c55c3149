-- Let the longest-waiting execution of each of these jobs have its turn; under `replace` the newest. Called when the floor
-- has been freed and that is committed: whoever was refused because of the one that had it has been put back by then,
-- since it kept that one from ending until it was. Index: executions_pkey, one range per job; that a claim is missing is
-- asked in a way that no index of unclaimed executions is thought to answer (see `tocsin.db.statements`).
WITH turn AS (
    UPDATE executions e SET run_at = tocsin_now()
    FROM (
        SELECT next.ctid
        FROM (SELECT $1::smallint AS cell, g.id FROM unnest($2::uuid[]) AS g (id) OFFSET 0) AS j
        CROSS JOIN LATERAL (
            SELECT w.ctid FROM executions w
            WHERE w.cell = ANY (ARRAY[j.cell]) AND w.job_id = j.id AND w.overlap IS NOT NULL
              AND coalesce(w.claim_token, -1) = -1 AND w.waits_for = 'turn'
            ORDER BY CASE WHEN w.overlap = 'replace' THEN w.fire_at END DESC NULLS LAST, w.fire_at
            LIMIT 1 FOR UPDATE SKIP LOCKED
        ) AS next
        OFFSET 0
    ) AS n
    WHERE e.ctid = n.ctid
    RETURNING 1
)
SELECT count(*)::integer AS turns, CASE WHEN count(*) > 0 THEN pg_notify('tocsin', 'ready') END FROM turn
