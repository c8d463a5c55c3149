-- Add entries to the audit log. Called by AuditStore and inside the transactions of changes. Locks nothing.
INSERT INTO audit (tenant_id, actor, action, object, before, after, request_id, address)
SELECT * FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::jsonb[], $7::text[], $8::text[])
