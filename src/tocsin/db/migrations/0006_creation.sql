-- Creation at speed. Tenants are suspended, never deleted, so the reference protected nothing that the tenant's own
-- key does not; but every new job looked it up and locked the tenant's row against all other creations of the tenant.
ALTER TABLE jobs DROP CONSTRAINT jobs_tenant_id_fkey;
