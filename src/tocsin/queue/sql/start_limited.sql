-- `take_slots` and `start` in one statement, for claims that nothing but a number of slots may hold back: under a
-- flood of limited work that is a fifth of all of it. Called by PostgresQueue.start_gated on its own, without a
-- transaction around it. Claims come sorted by key ($7 to $9), keys as `take_slots` wants them.
-- Returns the places that got a slot and started, and with each how many slots were taken in all: if that is more,
-- somebody called off an execution at the last moment, and its slot must be given back.
WITH free AS MATERIALIZED (
    SELECT f.ctid, (w.before + row_number() OVER (PARTITION BY w.before))::integer AS place
    FROM unnest($2::integer[], $3::text[], $4::integer[], $5::integer[], $6::integer[])
        AS w (tenant_id, key, slots, number, before)
    CROSS JOIN LATERAL (
        SELECT s.ctid FROM limit_slots s
        WHERE s.cell = $1 AND s.tenant_id = w.tenant_id AND s.key = w.key AND s.slot <= w.slots AND s.job_id IS NULL
        LIMIT w.number
        FOR UPDATE SKIP LOCKED
    ) AS f
), taken AS (
    UPDATE limit_slots s
    SET job_id = ($7::uuid[])[f.place], fire_at = ($8::timestamptz[])[f.place], claim_token = ($9::bigint[])[f.place]
    FROM free f
    WHERE s.ctid = f.ctid
    RETURNING f.place, s.cell, s.slot, s.job_id, s.fire_at, s.claim_token
), started AS (
    UPDATE executions e SET started_at = coalesce(e.started_at, greatest(tocsin_now(), e.run_at))
    FROM taken t
    WHERE e.cell = ANY (ARRAY[t.cell]) AND e.job_id = t.job_id AND e.fire_at = t.fire_at
      AND e.claim_token IS NOT DISTINCT FROM t.claim_token
      AND NOT e.cancel_requested AND (e.started_at IS NOT NULL OR e.start_by IS NULL OR e.start_by > tocsin_now())
    RETURNING t.place, t.slot, e.started_at
)
SELECT place - 1 AS place, slot, started_at, (SELECT count(*) FROM taken)::integer AS taken FROM started
