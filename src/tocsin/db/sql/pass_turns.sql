-- Wake the execution of each of these jobs that is next: the one that waits longest, under `replace` the
-- newest. Nothing is done for a job of which an execution holds the turn. Runs inside the transaction that
-- ended an execution. A worker may have claimed the next one ahead of the instant at which it looks again:
-- the claim is taken back, for the worker would sit on the turn until then. Its start finds another token,
-- and starts nothing.
-- Caller: turns.pass_turns.
-- Locks: the chosen executions, skipping those that another transaction changes. Should that one be next, the
-- one that is woken instead finds it in its way and wakes it.
-- Index: executions_pkey, executions_turn. One range per job.
-- Zero rows: no execution waits, or the turns are taken.
WITH woken AS (
    UPDATE executions e SET run_at = tocsin_now(), claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL
    FROM (
        SELECT next.*
        FROM (SELECT DISTINCT $1::smallint AS cell, g.id FROM unnest($2::uuid[]) AS g (id) ORDER BY g.id OFFSET 0) AS j
        CROSS JOIN LATERAL (
            SELECT w.cell, w.job_id, w.fire_at, w.run_at FROM executions w
            WHERE w.cell = ANY (ARRAY[j.cell]) AND w.job_id = j.id AND w.overlap IS NOT NULL
              AND w.started_at IS NULL AND w.waits_for = 'turn'
              AND NOT EXISTS (
                SELECT FROM executions h WHERE h.cell = j.cell AND h.job_id = j.id AND h.has_turn OFFSET 0)
            ORDER BY CASE WHEN w.overlap = 'replace' THEN w.fire_at END DESC NULLS LAST, w.fire_at
            LIMIT 1 FOR NO KEY UPDATE OF w SKIP LOCKED
        ) AS next
        WHERE next.run_at > tocsin_now()
        OFFSET 0
    ) AS n
    WHERE e.cell = ANY (ARRAY[n.cell]) AND e.job_id = n.job_id AND e.fire_at = n.fire_at
    RETURNING 1
)
SELECT count(*)::integer AS jobs, CASE WHEN count(*) > 0 THEN pg_notify('tocsin', 'ready') END FROM woken
