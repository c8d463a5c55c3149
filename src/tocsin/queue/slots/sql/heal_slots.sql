-- Give back slots whose worker is gone, once nothing of the key runs any more that it had started: what it
-- was doing when it vanished may go on until the claim's deadline. Runs after `fence_nodes`. A worker that
-- came back and has adopted a slot meanwhile keeps it: the epoch on the row is another one by then.
-- Caller: Healing.heal.
-- Locks: the slots.
-- Index: executions_deadline, all claims, and only if a slot is lost.
-- Zero rows: no slot came free.
WITH lost AS MATERIALIZED (
    SELECT s.ctid, s.epoch, s.node_id, s.tenant_id, s.key
    FROM slots s
    WHERE s.cell = :cell AND s.epoch IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.slots_epoch = s.epoch)
), running AS MATERIALIZED (
    SELECT DISTINCT e.node_id, e.tenant_id, e.limit_key
    FROM executions e
    WHERE e.cell = :cell AND e.claim_token IS NOT NULL AND e.started_at IS NOT NULL AND e.limit_key IS NOT NULL
      AND EXISTS (SELECT FROM lost)
)
UPDATE slots s SET node_id = NULL, epoch = NULL
FROM lost l
WHERE s.ctid = l.ctid AND s.epoch = l.epoch
  AND NOT EXISTS (
    SELECT FROM running r WHERE r.node_id = l.node_id AND r.tenant_id = l.tenant_id AND r.limit_key = l.key)
RETURNING s.tenant_id, s.key
