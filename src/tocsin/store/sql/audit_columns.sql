-- Not a statement: an entry of the audit log as the API shows it.
-- Caller: AuditStore._page, AuditStore._walk.
SELECT a.id, a.at, a.tenant_id, a.actor, a.action, a.object, a.before, a.after, a.request_id, a.address, a.via
FROM audit a
