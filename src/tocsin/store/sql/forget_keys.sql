-- Remove idempotency keys that no longer count, the oldest first, from $1 on, at most $2. $1 is where the
-- look before ended: while a long transaction keeps vacuum away, all that was removed is still in the index.
-- A key that is taken anew at this moment is kept.
-- Caller: ForgettingStore.keys.
-- Locks: the keys, skipping those that others have.
-- Index: idempotency_expiry.
-- Zero rows: nothing is left to remove.
DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
    SELECT i.ctid FROM idempotency i
    WHERE i.expires_at >= $1 AND i.expires_at <= tocsin_now()
    ORDER BY i.expires_at LIMIT $2
    FOR UPDATE SKIP LOCKED))
RETURNING expires_at
