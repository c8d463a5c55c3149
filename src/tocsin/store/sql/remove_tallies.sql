-- Removes what was counted from $1 to $2, an hour, before it is counted again in the same transaction.
-- Caller: TallyStore.rebuild.
-- Locks: the rows.
-- Index: tallies_pkey, one probe per tenant and step.
-- Zero rows: always.
DELETE FROM tallies WHERE ctid = ANY (ARRAY(
    SELECT c.ctid FROM (SELECT id FROM tenants UNION ALL SELECT 0) AS t CROSS JOIN (VALUES (10), (60), (3600)) AS s (step_s)
    CROSS JOIN LATERAL (
        SELECT c.ctid FROM tallies c
        WHERE c.tenant_id = t.id AND c.step_s = s.step_s AND c.bucket >= $1 AND c.bucket < $2) AS c))
