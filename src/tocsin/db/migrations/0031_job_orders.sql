-- Jobs of a tenant by their next fire, and paused ones, found without reading the others.
-- runs beside: 0008
CREATE INDEX jobs_next_of_tenant ON jobs (tenant_id, next_fire_at) WHERE state = 'active' AND kind = 'recurring';
CREATE INDEX jobs_paused_of_tenant ON jobs (tenant_id, id) WHERE state = 'paused';
