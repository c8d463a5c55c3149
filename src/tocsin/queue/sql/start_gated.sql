-- Start claims that nothing holds back: the slot that their worker believes to be free is free, and no other execution of
-- their job has the floor or comes before them. Whatever is not as simple is left alone and decided at the gate.
-- Called by Gate.start. Claims come sorted by key and slot, floors are taken by job, so that workers which want the
-- same wait for each other in the same order: whoever comes second finds it taken.
-- The floor comes last: whoever does not start must not have it, and a slot, unlike the floor, can be given back by token.
-- Returns the places that started. `taken` is how many slots were taken in all: if more than started, the others must be
-- given back.
WITH wanted AS MATERIALIZED (
    SELECT e.ctid, e.cell, e.tenant_id, e.limit_key, e.overlap, s.job_id, s.fire_at, s.token, s.slot, s.place
    FROM (
        SELECT $1::smallint AS cell, g.*
        FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::smallint[])
            WITH ORDINALITY AS g (job_id, fire_at, token, slot, place)
        OFFSET 0
    ) AS s
    JOIN executions e ON e.cell = ANY (ARRAY[s.cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
    WHERE e.claim_token IS NOT DISTINCT FROM s.token AND NOT e.cancel_requested
      AND (e.start_by IS NULL OR e.start_by > tocsin_now())
      AND (e.overlap IS NULL OR NOT EXISTS (
        SELECT FROM executions w
        WHERE w.cell = ANY (ARRAY[s.cell]) AND w.job_id = s.job_id AND w.fire_at < s.fire_at OFFSET 0))
), taken AS (
    UPDATE limit_slots s SET job_id = w.job_id, fire_at = w.fire_at, claim_token = w.token
    FROM wanted w
    WHERE s.cell = ANY (ARRAY[w.cell]) AND s.tenant_id = w.tenant_id AND s.key = w.limit_key AND s.slot = w.slot
      AND s.job_id IS NULL
    RETURNING w.place
), able AS MATERIALIZED (
    SELECT * FROM wanted w WHERE w.slot IS NULL OR CASE WHEN w.place IN (SELECT place FROM taken) THEN true END
), floor AS (
    INSERT INTO solos (cell, job_id, fire_at)
    SELECT cell, job_id, fire_at FROM able WHERE overlap IS NOT NULL ORDER BY job_id
    ON CONFLICT DO NOTHING
    RETURNING job_id
), started AS (
    UPDATE executions e SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at))
    FROM able a
    WHERE e.ctid = a.ctid AND e.claim_token IS NOT DISTINCT FROM a.token
      AND NOT e.cancel_requested AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > tocsin_now())
      AND (a.overlap IS NULL OR CASE WHEN a.job_id IN (SELECT job_id FROM floor) THEN true END)
    RETURNING a.place, e.started_at
)
SELECT place::integer - 1 AS place, started_at, (SELECT count(*) FROM taken)::integer AS taken FROM started
