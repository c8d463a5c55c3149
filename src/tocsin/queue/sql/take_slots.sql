-- Take free slots for claims that are about to start. Called by PostgresQueue.start_gated inside its transaction.
-- Claims come sorted by key ($7 to $9); each key says how many it wants and how many claims stand before its first, so
-- that the n-th free slot of a key goes to its n-th claim without a join.
-- Locks: free slots, skipping those another worker is taking. A slot says itself whether it is taken, so a row
-- that changed hands meanwhile is re-checked on its newest version. Returns the places that got one, and which.
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
)
UPDATE limit_slots s
SET job_id = ($7::uuid[])[f.place], fire_at = ($8::timestamptz[])[f.place], claim_token = ($9::bigint[])[f.place]
FROM free f
WHERE s.ctid = f.ctid
RETURNING f.place - 1 AS place, s.slot
