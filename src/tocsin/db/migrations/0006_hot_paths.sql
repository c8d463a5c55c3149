-- Less work per row where there are many rows.

-- Tenants are suspended, never deleted, so the reference protected nothing that the tenant's own key does not; but
-- every new job looked it up and locked the tenant's row together with all other creations of the tenant.
ALTER TABLE jobs DROP CONSTRAINT jobs_tenant_id_fkey;

-- Whoever gives a slot back names its key, and the slot if it knows it, so that no index mentions what changes when a
-- slot is taken or given back: these are heap-only updates now.
DROP INDEX limit_slots_taken;

-- When a slot is given back, whoever waits for one is looked up here. The index that this one replaces held all queued
-- executions with a key, and the look-up walked a key's whole backlog.
CREATE INDEX executions_waiting ON executions (cell, tenant_id, limit_key, due_at)
    WHERE waits_for = 'slot' AND claim_token IS NULL;
DROP INDEX executions_limited;
