-- Make sure that these keys have so many slots ($4). Called by Slots when it meets a key for the first time, and when all
-- slots that there are are taken. They are made from the first to the last: where the last is, all are.
INSERT INTO slots (cell, tenant_id, key, slot)
SELECT $1, k.tenant_id, k.key, s.slot
FROM (
    SELECT g.* FROM unnest($2::integer[], $3::text[], $4::integer[]) AS g (tenant_id, key, slots)
    WHERE NOT EXISTS (
        SELECT FROM slots l
        WHERE l.cell = $1 AND l.tenant_id = g.tenant_id AND l.key = g.key AND l.slot = g.slots OFFSET 0)
) AS k
CROSS JOIN LATERAL generate_series(1, k.slots) AS s (slot)
ON CONFLICT DO NOTHING
