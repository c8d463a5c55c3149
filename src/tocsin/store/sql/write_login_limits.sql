-- What a tenant's bound logins may still enqueue. $4 jobs were pending a moment ago.
-- Caller: LoginStore._count.
-- Locks: the row.
-- Index: login_limits_pkey.
-- Zero rows: always.
INSERT INTO login_limits (tenant_id, pending_jobs, payload_bytes, pending, counted_at)
VALUES ($1, $2, $3, $4, tocsin_now())
ON CONFLICT (tenant_id) DO UPDATE
SET pending_jobs = excluded.pending_jobs, payload_bytes = excluded.payload_bytes, pending = excluded.pending,
    counted_at = excluded.counted_at
