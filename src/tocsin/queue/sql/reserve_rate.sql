-- Reserve places in the rates of these keys: $5 microseconds apart, $6 of them each. Called by
-- PostgresQueue.start_gated inside its transaction, keys in order. Returns each key's first reserved instant.
INSERT INTO limit_rates AS r (cell, tenant_id, key, next_at)
SELECT $1, k.tenant_id, k.key, tocsin_now() + k.number * k.gap
FROM unnest($2::integer[], $3::text[], $4::interval[], $5::integer[]) AS k (tenant_id, key, gap, number)
ORDER BY k.tenant_id, k.key
ON CONFLICT (cell, tenant_id, key) DO UPDATE
    SET next_at = greatest(r.next_at, tocsin_now()) + (excluded.next_at - tocsin_now())
RETURNING tenant_id, key, next_at
