-- Put secrets back that were sealed anew under key $1: $2 tenants, $3 names, $4 what was read, $5 what takes
-- its place. A row that no longer is what was read has been replaced by its owner, or resealed by another
-- process, and stays as it is. So does one that another transaction is writing: waiting could deadlock.
-- Caller: Resealing.batch.
-- Locks: the rows it writes, skipping those that others have.
-- Index: secrets_pkey, webhook_secrets_pkey.
-- Zero rows: never; one row says how many of each kind were written.
WITH fresh AS (
    SELECT * FROM unnest($2::integer[], $3::text[], $4::bytea[], $5::bytea[]) AS f (tenant_id, name, stale, sealed)
), users_free AS (
    SELECT s.tenant_id, s.name, f.sealed
    FROM fresh f JOIN secrets s ON s.tenant_id = f.tenant_id AND s.name = f.name AND s.sealed = f.stale
    FOR UPDATE OF s SKIP LOCKED
), of_users AS (
    UPDATE secrets s SET key_id = $1, sealed = f.sealed FROM users_free f
    WHERE s.tenant_id = f.tenant_id AND s.name = f.name
    RETURNING 1
), webhooks_free AS (
    SELECT s.tenant_id, s.version, f.sealed
    FROM fresh f JOIN webhook_secrets s ON s.tenant_id = f.tenant_id AND 'webhook/' || s.version = f.name AND s.sealed = f.stale
    FOR UPDATE OF s SKIP LOCKED
), of_webhooks AS (
    UPDATE webhook_secrets s SET key_id = $1, sealed = f.sealed FROM webhooks_free f
    WHERE s.tenant_id = f.tenant_id AND s.version = f.version
    RETURNING 1
)
SELECT (SELECT count(*) FROM of_users)::integer AS secrets, (SELECT count(*) FROM of_webhooks)::integer AS webhook_secrets
