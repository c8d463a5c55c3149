-- Nodes that vanished and left slots behind get a new epoch: should one of them come back, it starts nothing on slots that
-- may be somebody else's by then. Called by PostgresQueue.heal. Whoever is about to start has its node's row locked against
-- this, so that afterwards everything that it started can be seen.
WITH gone AS MATERIALIZED (
    SELECT n.id FROM nodes n
    WHERE n.expires_at <= tocsin_now()
      AND EXISTS (SELECT FROM slots s WHERE s.cell = $1 AND s.epoch = n.slots_epoch)
    FOR UPDATE
)
UPDATE nodes n SET slots_epoch = nextval('slots_epochs') FROM gone g WHERE n.id = g.id
