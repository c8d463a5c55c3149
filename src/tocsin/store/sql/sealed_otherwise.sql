-- Secrets that are sealed under another key than $1, of one tenant ($4) or of all, after the place ($2, $3),
-- on connections that see all tenants. The names of webhook secrets are those that they are bound to; no
-- user's has a slash. Those that have expired are never opened again, and left out.
-- Caller: Resealing.batch.
-- Locks: nothing; what changes meanwhile is noticed when it is written back (reseal).
-- Index: none. Secrets are few and read whole.
-- Zero rows: nothing is left that is sealed otherwise.
SELECT s.tenant_id, t.name AS tenant, s.name, s.key_id, s.sealed
FROM (
    SELECT tenant_id, name, key_id, sealed FROM secrets
    UNION ALL
    SELECT tenant_id, 'webhook/' || version, key_id, sealed FROM webhook_secrets
    WHERE expires_at IS NULL OR expires_at > tocsin_now()
) s
JOIN tenants t ON t.id = s.tenant_id
WHERE s.key_id <> $1 AND (s.tenant_id, s.name) > ($2::integer, $3::text) AND ($4::integer IS NULL OR s.tenant_id = $4)
ORDER BY s.tenant_id, s.name
LIMIT $5
