-- Take an idempotency key for what a request makes. Runs inside the creating transaction: a second request
-- with the same key waits here until the first has committed. An expired key is taken over.
-- Caller: JobStore.define_once, repeats.take_key, repeats.take_text.
-- Locks: the key.
-- Index: idempotency_pkey.
-- Zero rows: an earlier request has the key; its answer is read instead.
INSERT INTO idempotency (tenant_id, key, request_hash, job_id, answer, expires_at)
VALUES ($1, $2, $3, $4, $5, tocsin_now() + interval '24 hours')
ON CONFLICT (tenant_id, key) DO UPDATE
    SET request_hash = excluded.request_hash, job_id = excluded.job_id, answer = excluded.answer,
        expires_at = excluded.expires_at
    WHERE idempotency.expires_at <= tocsin_now()
RETURNING true
