-- Start claims of jobs that must not overlap, if nobody else of their job has the floor.
-- Called by PostgresQueue.start_gated inside its transaction, after `hold_solos`: until commit nobody else decides
-- about these jobs, so a turn is never missed. Locks: the claimed rows.
-- Of several claims of one job the earliest is considered; under `queue` nobody overtakes one that is due and has not
-- started, even if another worker is about to start it. Whoever has the floor already (it is back for another
-- attempt) comes before both: an earlier one may wait for it.
-- Returns all that may ask, without a start time, and those that started, with one: joining the two would compare
-- each with each. What is not returned at all was lost.
-- Slots are good as long as the worker's node has not been fenced off ($6: the epoch; NULL if no claim needs one).
WITH me AS MATERIALIZED (
    SELECT FROM nodes n WHERE n.id = $5 AND n.slots_epoch = $6 FOR KEY SHARE
), asked AS (
    SELECT s.job_id, s.fire_at, s.token, s.place, e.overlap
    FROM (
        SELECT $1::smallint AS cell, g.* FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[])
            WITH ORDINALITY AS g (job_id, fire_at, token, place) OFFSET 0
    ) AS s
    JOIN executions e ON e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
    WHERE e.claim_token IS NOT DISTINCT FROM s.token AND NOT e.cancel_requested
      AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > greatest(tocsin_now(), e.run_at))
      AND ($6::bigint IS NULL OR EXISTS (SELECT FROM me))
    ORDER BY s.job_id, s.fire_at
    FOR UPDATE OF e
), first AS (
    SELECT DISTINCT ON (a.job_id) a.job_id, a.fire_at FROM asked a
    LEFT JOIN solos s ON s.cell = $1 AND s.job_id = a.job_id AND s.fire_at = a.fire_at
    WHERE s.job_id IS NOT NULL OR a.overlap <> 'queue' OR NOT EXISTS (
        SELECT FROM executions w
        WHERE w.cell = $1 AND w.job_id = a.job_id AND w.fire_at < a.fire_at AND w.overlap = 'queue'
          AND w.started_at IS NULL AND w.due_at <= tocsin_now())
    ORDER BY a.job_id, s.job_id IS NULL, a.fire_at
), granted AS (
    INSERT INTO solos (cell, job_id, fire_at)
    SELECT $1, job_id, fire_at FROM first ORDER BY job_id
    ON CONFLICT (cell, job_id) DO UPDATE SET fire_at = excluded.fire_at
        WHERE solos.fire_at = excluded.fire_at OR NOT EXISTS (
            SELECT FROM executions h
            WHERE h.cell = solos.cell AND h.job_id = solos.job_id AND h.fire_at = solos.fire_at)
    RETURNING cell, job_id, fire_at
), started AS (
    UPDATE executions e SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at))
    FROM granted g
    WHERE e.cell = ANY (ARRAY[g.cell]) AND e.job_id = g.job_id AND e.fire_at = g.fire_at
    RETURNING e.job_id, e.fire_at, e.started_at
)
SELECT job_id, fire_at, NULL::timestamptz AS started_at FROM asked
UNION ALL
SELECT job_id, fire_at, started_at FROM started
