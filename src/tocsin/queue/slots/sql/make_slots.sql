-- Make sure that these keys have `slot_counts` slots. Slots are made from the first to the last: where the
-- last is, all are. Runs when a worker meets a key for the first time, and when every existing slot is taken
-- and the limit allows more.
-- Caller: Slots._make.
-- Locks: the new rows.
-- Index: slots_pkey.
-- Zero rows: it returns none.
INSERT INTO slots (cell, tenant_id, key, slot)
SELECT :cell, k.tenant_id, k.key, s.slot
FROM (
    SELECT g.* FROM unnest(:tenant_ids::integer[], :keys::text[], :slot_counts::integer[]) AS g (tenant_id, key, slots)
    WHERE NOT EXISTS (
        SELECT FROM slots l
        WHERE l.cell = :cell AND l.tenant_id = g.tenant_id AND l.key = g.key AND l.slot = g.slots OFFSET 0)
) AS k
CROSS JOIN LATERAL generate_series(1, k.slots) AS s (slot)
ON CONFLICT DO NOTHING
