-- Add entries to the audit log, also inside the transactions of changes.
-- Caller: audit.write_audit.
-- Locks: nothing.
-- Index: none. It only adds.
-- Zero rows: never read; the rows are added.
INSERT INTO audit (tenant_id, actor, action, object, before, after, request_id, address, via)
SELECT * FROM unnest(:tenant_ids::integer[], :actors::text[], :actions::text[], :objects::text[], :befores::jsonb[],
                     :afters::jsonb[], :request_ids::text[], :addresses::text[], :vias::text[])
