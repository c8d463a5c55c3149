-- A ticket or a session for a key, and an end to what is over or too many of the key's.
-- Caller: SessionStore._open.
-- Locks: the new row and those that it removes.
-- Index: api_keys_pkey, dashboard_sessions_expiry, dashboard_sessions_of_key.
-- Zero rows: the key is not valid (any more).
WITH key AS (
    SELECT id, tenant_id FROM api_keys
    WHERE id = $3 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > tocsin_now())
), over AS (
    DELETE FROM dashboard_sessions WHERE expires_at < tocsin_now()
), too_many AS (
    DELETE FROM dashboard_sessions WHERE token_hash IN (
        SELECT token_hash FROM dashboard_sessions WHERE key_id = $3 AND expires_at >= tocsin_now()
        ORDER BY created_at DESC OFFSET $5)
)
INSERT INTO dashboard_sessions (token_hash, kind, tenant_id, key_id, created_at, expires_at)
SELECT $1, $2, tenant_id, id, tocsin_now(), tocsin_now() + $4::interval FROM key
RETURNING expires_at
