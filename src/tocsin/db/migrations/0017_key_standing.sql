-- A key's look-up tells when the key expires and whether its tenant is suspended.
-- runs beside: 0008

-- Older code compares `secret_hash`, which is empty for a suspended tenant: it refuses the key as before.
DROP FUNCTION find_api_key(text);
CREATE FUNCTION find_api_key(wanted text)
RETURNS TABLE (id text, tenant_id integer, tenant text, secret_hash bytea, scopes text[], limits jsonb,
               expires_at timestamptz, suspended boolean, true_hash bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = tocsin, pg_temp
AS $$
    SELECT k.id, k.tenant_id, t.name, CASE WHEN t.state = 'active' THEN k.secret_hash ELSE ''::bytea END, k.scopes,
           t.limits, k.expires_at, t.state <> 'active', k.secret_hash
    FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
    WHERE k.id = wanted AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > tocsin_now())
$$;
REVOKE ALL ON FUNCTION find_api_key FROM PUBLIC;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tocsin_api') THEN
        GRANT EXECUTE ON FUNCTION find_api_key TO tocsin_api;
    END IF;
END $$;
