-- Add entries to the audit log, also inside the transactions of changes.
-- Caller: audit.write_audit.
-- Locks: nothing.
-- Index: none. It only adds.
-- Zero rows: never read; the rows are added.
INSERT INTO audit (tenant_id, actor, action, object, before, after, request_id, address)
SELECT * FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::jsonb[], $6::jsonb[], $7::text[], $8::text[])
