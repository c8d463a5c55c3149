-- Take free slots for claims that are about to start. Called by PostgresQueue.start_gated inside its transaction.
-- Locks: free slots, skipping those another worker is taking. A slot says itself whether it is taken, so a row
-- that changed hands meanwhile is re-checked on its newest version. Returns the places that got one.
WITH asked AS (
    SELECT a.*, row_number() OVER (PARTITION BY a.tenant_id, a.key ORDER BY a.place) AS turn
    FROM unnest($2::integer[], $3::text[], $4::integer[], $5::uuid[], $6::timestamptz[], $7::bigint[])
        WITH ORDINALITY AS a (tenant_id, key, slots, job_id, fire_at, token, place)
), wanted AS (
    SELECT tenant_id, key, max(slots) AS slots, count(*) AS number FROM asked GROUP BY tenant_id, key
), free AS (
    SELECT w.tenant_id, w.key, f.slot, row_number() OVER (PARTITION BY w.tenant_id, w.key) AS turn
    FROM wanted w CROSS JOIN LATERAL (
        SELECT s.slot FROM limit_slots s
        WHERE s.cell = $1 AND s.tenant_id = w.tenant_id AND s.key = w.key AND s.slot <= w.slots AND s.job_id IS NULL
        LIMIT w.number
        FOR UPDATE SKIP LOCKED
    ) AS f
)
UPDATE limit_slots s SET job_id = a.job_id, fire_at = a.fire_at, claim_token = a.token
FROM free f JOIN asked a ON a.tenant_id = f.tenant_id AND a.key = f.key AND a.turn = f.turn
WHERE s.cell = $1 AND s.tenant_id = f.tenant_id AND s.key = f.key AND s.slot = f.slot
RETURNING a.place::integer - 1 AS place
