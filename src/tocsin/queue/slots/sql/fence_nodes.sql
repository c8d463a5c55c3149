-- Give nodes that vanished and left slots behind a new epoch: should one of them come back, it starts nothing
-- on slots that may be another worker's by then. A worker that is about to start something has its node's row
-- locked against this, so afterwards everything that it started can be seen.
-- Caller: Healing.heal.
-- Locks: the nodes.
-- Index: none, few nodes.
-- Zero rows: it returns none.
WITH gone AS MATERIALIZED (
    SELECT n.id FROM nodes n
    WHERE n.expires_at <= tocsin_now()
      AND EXISTS (SELECT FROM slots s WHERE s.cell = :cell AND s.epoch = n.slots_epoch)
    FOR UPDATE
)
UPDATE nodes n SET slots_epoch = nextval('slots_epochs') FROM gone g WHERE n.id = g.id
