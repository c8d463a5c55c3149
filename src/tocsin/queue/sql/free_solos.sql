-- Free the floor of executions that are over, and let the longest-waiting one of each job have its turn; under
-- `replace` the newest.
-- Called inside the transaction that finished them, after `lock_solos`.
WITH freed AS (
    DELETE FROM solos s
    USING (
        SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[]) AS g (job_id, fire_at) OFFSET 0
    ) AS d
    WHERE s.cell = ANY (ARRAY[d.cell]) AND s.job_id = d.job_id AND s.fire_at = d.fire_at
      AND NOT EXISTS (SELECT FROM executions e WHERE e.cell = s.cell AND e.job_id = s.job_id AND e.fire_at = s.fire_at)
    RETURNING s.job_id
), turn AS (
    UPDATE executions e SET run_at = tocsin_now()
    FROM freed CROSS JOIN LATERAL (
        SELECT w.job_id, w.fire_at FROM executions w
        WHERE w.cell = $1 AND w.job_id = freed.job_id AND w.overlap IS NOT NULL AND w.claim_token IS NULL
          AND w.waits_for = 'turn'
        ORDER BY CASE WHEN w.overlap = 'replace' THEN w.fire_at END DESC NULLS LAST, w.fire_at
        LIMIT 1 FOR UPDATE SKIP LOCKED
    ) AS next
    WHERE e.cell = $1 AND e.job_id = next.job_id AND e.fire_at = next.fire_at
    RETURNING 1
)
SELECT count(*)::integer AS turns, CASE WHEN count(*) > 0 THEN pg_notify('tocsin', 'ready') END FROM turn
