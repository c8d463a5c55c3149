-- Make sure that the slots of these keys exist. Called by PostgresQueue the first time it meets a key with a
-- larger number of slots than it has seen.
INSERT INTO limit_slots (cell, tenant_id, key, slot)
SELECT $1, k.tenant_id, k.key, s.slot
FROM unnest($2::integer[], $3::text[], $4::integer[]) AS k (tenant_id, key, slots)
CROSS JOIN LATERAL generate_series(1, k.slots) AS s (slot)
ON CONFLICT DO NOTHING
