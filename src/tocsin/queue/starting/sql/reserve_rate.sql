-- Reserve instants in the rates of these keys: `numbers` of them each, `gaps` apart. Returns where each key's
-- rate stands after the reserved instants.
-- Caller: Rates._reserve.
-- Locks: the rows of `limit_rates`, by tenant and key.
-- Index: limit_rates_pkey.
-- Zero rows: no key was given.
INSERT INTO limit_rates AS r (cell, tenant_id, key, next_at)
SELECT :cell, k.tenant_id, k.key, tocsin_now() + k.number * k.gap
FROM unnest(:tenant_ids::integer[], :keys::text[], :gaps::interval[], :numbers::integer[])
    AS k (tenant_id, key, gap, number)
ORDER BY k.tenant_id, k.key
ON CONFLICT (cell, tenant_id, key) DO UPDATE
    SET next_at = greatest(r.next_at, tocsin_now()) + (excluded.next_at - tocsin_now())
RETURNING tenant_id, key, next_at
