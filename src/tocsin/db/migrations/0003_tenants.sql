-- Tenants, keys, audit, and the second wall between tenants: row-level security.

ALTER TABLE tenants
    ADD COLUMN state_reason text,
    ADD COLUMN updated_at timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE api_keys ADD COLUMN replaced_by text;
CREATE INDEX api_keys_of_tenant ON api_keys (tenant_id, id);

-- What counts against a tenant's limit of pending jobs besides queued one-offs. Small: ended jobs are not in it.
CREATE INDEX jobs_pending ON jobs (tenant_id) WHERE state = 'paused' OR (state = 'active' AND kind = 'recurring');

-- The number orders rows of the same microsecond. A creation is found by the time inside the job's id, so that
-- the index of objects need not hold the many rows that only say that a job was created.
CREATE SEQUENCE audit_ids;
ALTER TABLE audit ADD COLUMN id bigint NOT NULL DEFAULT nextval('audit_ids');
CREATE INDEX audit_of_object ON audit (object, at) WHERE action <> 'job.create';

-- Whom the session acts for: tenant ids separated by commas. Unset or empty: nobody, and nothing is seen.
CREATE FUNCTION acting_tenants() RETURNS integer[] LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT string_to_array(current_setting('tocsin.tenants', true), ',')::integer[] $$;

-- A key is looked up before anybody knows whose it is; so this runs with the owner's rights.
CREATE FUNCTION find_api_key(wanted text)
RETURNS TABLE (id text, tenant_id integer, tenant text, secret_hash bytea, scopes text[], limits jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = tocsin, pg_temp
AS $$
    SELECT k.id, k.tenant_id, t.name, k.secret_hash, k.scopes, t.limits
    FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
    WHERE k.id = wanted AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > tocsin_now())
      AND t.state = 'active'
$$;
REVOKE ALL ON FUNCTION find_api_key FROM PUBLIC;

-- The wall. Called after every migration, by the owner of the schema; changes only what is not yet as it should
-- be, so that tables of later migrations are behind the wall too. Returns NULL, or what stands in the way.
--
-- Every table with a tenant_id has two policies. `own_tenant` is for everybody: rows of the tenants that the
-- session acts for. `engine` is for the owner, who plans and fires for all. Partitions are reached through their
-- parents only. API processes turn into tocsin_api, which owns nothing, bypasses nothing, and can only add to audit.
CREATE FUNCTION secure_tables() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    schema_id CONSTANT oid := 'tocsin'::regnamespace;
    needed CONSTANT text := CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END;
    one record;
    trouble text;
BEGIN
    FOR one IN
        SELECT c.oid, c.oid::regclass AS name, c.relowner::regrole AS owner, c.relrowsecurity AND c.relforcerowsecurity AS forced,
               CASE c.relname WHEN 'tenants' THEN 'id' ELSE 'tenant_id' END AS tenant,
               EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid AND polname = 'own_tenant') AS walled,
               EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid AND polname = 'engine') AS open,
               EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid AND polname = 'engine'
                       AND polroles = ARRAY[c.relowner]) AS open_to_owner
        FROM pg_class c
        WHERE c.relnamespace = schema_id AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND (c.relname = 'tenants' OR EXISTS (
              SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped))
        ORDER BY c.relname
    LOOP
        IF one.open AND NOT one.open_to_owner THEN
            EXECUTE format('DROP POLICY engine ON %s', one.name);
        END IF;
        IF NOT one.open_to_owner THEN
            EXECUTE format('CREATE POLICY engine ON %s TO %s USING (true) WITH CHECK (true)', one.name, one.owner);
        END IF;
        IF NOT one.walled THEN
            -- The inner SELECT makes it one look at the setting per statement instead of one per row.
            EXECUTE format('CREATE POLICY own_tenant ON %s USING (%I = ANY ((SELECT acting_tenants())::integer[]))',
                           one.name, one.tenant);
        END IF;
        IF NOT one.forced THEN
            EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', one.name);
            EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', one.name);
        END IF;
    END LOOP;

    -- Searches by part of a name or by tag use operators that PostgreSQL does not run before a policy's own check,
    -- and then no index helps. This view has the check built in, and runs with the owner's rights.
    IF (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('own_jobs') AND attnum > 0 AND NOT attisdropped)
       IS DISTINCT FROM
       (SELECT count(*) FROM pg_attribute WHERE attrelid = 'jobs'::regclass AND attnum > 0 AND NOT attisdropped) THEN
        CREATE OR REPLACE VIEW own_jobs AS
            SELECT * FROM jobs WHERE tenant_id = ANY ((SELECT acting_tenants())::integer[]);
    END IF;

    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tocsin_api') THEN
        BEGIN
            CREATE ROLE tocsin_api NOLOGIN NOINHERIT;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- another database of this server was quicker
            WHEN insufficient_privilege THEN RETURN 'there is no role tocsin_api, and ' || current_user || ' may not create it';
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'tocsin_api', needed) THEN
        BEGIN
            GRANT tocsin_api TO CURRENT_USER;
        EXCEPTION
            WHEN unique_violation THEN NULL;
            WHEN insufficient_privilege THEN trouble := current_user || ' may not turn into tocsin_api';
        END;
    END IF;

    IF NOT has_schema_privilege('tocsin_api', schema_id, 'USAGE') THEN
        GRANT USAGE ON SCHEMA tocsin TO tocsin_api;
    END IF;
    IF NOT has_function_privilege('tocsin_api', 'find_api_key(text)', 'EXECUTE') THEN
        GRANT EXECUTE ON FUNCTION find_api_key TO tocsin_api;
    END IF;
    FOR one IN
        SELECT c.oid, c.oid::regclass AS name, w.privilege
        FROM pg_class c
        CROSS JOIN LATERAL unnest(CASE
            WHEN c.relkind = 'S' THEN ARRAY['USAGE']
            WHEN c.relname = 'api_keys' THEN '{}'
            WHEN c.relname IN ('tenants', 'nodes', 'shards', 'installation', 'migrations', 'own_jobs') THEN ARRAY['SELECT']
            WHEN c.relname = 'audit' THEN ARRAY['SELECT', 'INSERT']
            ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END) AS w (privilege)
        WHERE c.relnamespace = schema_id AND c.relkind IN ('r', 'p', 'v', 'S') AND NOT c.relispartition
    LOOP
        IF NOT (CASE one.privilege WHEN 'USAGE' THEN has_sequence_privilege('tocsin_api', one.oid, 'USAGE')
                ELSE has_table_privilege('tocsin_api', one.oid, one.privilege) END) THEN
            EXECUTE format('GRANT %s ON %s %s TO tocsin_api', one.privilege,
                           CASE one.privilege WHEN 'USAGE' THEN 'SEQUENCE' ELSE 'TABLE' END, one.name);
        END IF;
    END LOOP;
    RETURN trouble;
END $$;
