-- Start claims in the slots that their worker believes to be free, for claims that nothing but slots may hold back.
-- Called by Slots.start. Claims come sorted by key and slot, so that two workers that want the same slots wait for each
-- other in the same order. A slot that is taken after all is passed over, and its claim does not start.
-- Returns the places that started, and with each how many slots were taken in all: if that is more, somebody called
-- off an execution at the last moment, and its slot must be given back.
WITH wanted AS MATERIALIZED (
    SELECT e.ctid, e.cell, e.tenant_id, e.limit_key, s.*
    FROM (
        SELECT $1::smallint AS cell, g.*
        FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::smallint[])
            WITH ORDINALITY AS g (job_id, fire_at, token, slot, place)
        OFFSET 0
    ) AS s (of_cell, job_id, fire_at, token, slot, place)
    JOIN executions e ON e.cell = ANY (ARRAY[s.of_cell]) AND e.job_id = s.job_id AND e.fire_at = s.fire_at
), taken AS (
    UPDATE limit_slots s SET job_id = w.job_id, fire_at = w.fire_at, claim_token = w.token
    FROM wanted w
    WHERE s.cell = ANY (ARRAY[w.cell]) AND s.tenant_id = w.tenant_id AND s.key = w.limit_key AND s.slot = w.slot
      AND s.job_id IS NULL
    RETURNING w.ctid, w.place, w.token
), started AS (
    UPDATE executions e SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at))
    FROM taken t
    WHERE e.ctid = t.ctid AND e.claim_token IS NOT DISTINCT FROM t.token
      AND NOT e.cancel_requested AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > tocsin_now())
    RETURNING t.place, e.started_at
)
SELECT place::integer - 1 AS place, started_at, (SELECT count(*) FROM taken)::integer AS taken FROM started
