-- Take the idempotency keys of many new jobs of one tenant. Runs inside the creating transaction, like
-- idempotent_key: a second request with the same keys waits for the first one's commit. Expired keys are
-- taken over.
-- Caller: repeats.take_keys.
-- Locks: the keys, in their order, so that two such requests never wait for each other.
-- Index: idempotency_pkey.
-- Zero rows: an earlier request has all of the keys; fewer rows than given mean that it has some of them.
INSERT INTO idempotency (tenant_id, key, request_hash, job_id, expires_at)
SELECT $1, g.key, g.request_hash, g.job_id, tocsin_now() + interval '24 hours'
FROM unnest($2::text[], $3::bytea[], $4::uuid[]) AS g (key, request_hash, job_id)
ORDER BY g.key
ON CONFLICT (tenant_id, key) DO UPDATE
    SET request_hash = excluded.request_hash, job_id = excluded.job_id, answer = NULL, expires_at = excluded.expires_at
    WHERE idempotency.expires_at <= tocsin_now()
RETURNING key
