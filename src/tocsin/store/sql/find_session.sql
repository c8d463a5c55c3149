-- The session of a cookie that is not remembered, with its key and tenant.
-- Caller: SessionStore.find.
-- Locks: nothing.
-- Index: dashboard_sessions_pkey, api_keys_pkey, tenants_pkey.
-- Zero rows: there is no such session, it is over, its key is revoked or expired, or its tenant is suspended.
SELECT k.id, k.tenant_id, t.name AS tenant, k.scopes, t.limits, s.created_at, s.expires_at
FROM dashboard_sessions s
JOIN api_keys k ON k.id = s.key_id
JOIN tenants t ON t.id = k.tenant_id
WHERE s.token_hash = $1 AND s.kind = 'session' AND s.expires_at > tocsin_now()
  AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > tocsin_now()) AND t.state = 'active'
