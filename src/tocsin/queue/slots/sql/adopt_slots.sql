-- Begin a new epoch of this worker's slots, with all slots that the database knows as the worker's, whatever
-- the worker remembers of them. Runs at the beginning, when an answer was lost, and when the node was fenced
-- off: slots that no reclaimer has healed yet are still the worker's. Statements under the epoch before that
-- are still under way are waited for, or find nothing to do.
-- Caller: Slots.adopt.
-- Locks: the worker's node, then its slots.
-- Index: none, the search walks all slots, so only then.
-- Zero rows: the node is not in the fleet. One row without a slot: the worker has none.
WITH held AS MATERIALIZED (
    SELECT n.id FROM nodes n WHERE n.id = :node_id FOR UPDATE
), me AS (
    UPDATE nodes n SET slots_epoch = nextval('slots_epochs') FROM held h WHERE n.id = h.id RETURNING n.id, n.slots_epoch
), kept AS (
    UPDATE slots s SET epoch = me.slots_epoch
    FROM me
    WHERE s.cell = :cell AND s.node_id = me.id
    RETURNING s.tenant_id, s.key, s.slot
)
SELECT me.slots_epoch, k.tenant_id, k.key, k.slot FROM me LEFT JOIN kept k ON true
