-- A bound login and its tenant.
-- Caller: LoginStore.bind, logins._found.
-- Locks: nothing.
-- Index: tenant_logins_pkey, tenants_pkey.
-- Zero rows: the login is not bound.
SELECT l.login::text AS login, l.tenant_id, l.created_at, t.name AS tenant
FROM tenant_logins l JOIN tenants t ON t.id = l.tenant_id
WHERE l.login = $1
