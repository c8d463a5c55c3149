-- Begin a new epoch of this worker's slots, with all that are its own whatever it remembers of them. Called by Slots at the
-- beginning, when an answer was lost, and when the node was fenced off: what nobody has healed yet is still the worker's.
-- Statements under the epoch before that are still on their way are waited for, or find nothing to do.
-- One row without a slot if it has none, no row if the node is not in the fleet. Walks all slots: not for every day.
WITH held AS MATERIALIZED (
    SELECT n.id FROM nodes n WHERE n.id = $2 FOR UPDATE
), me AS (
    UPDATE nodes n SET slots_epoch = nextval('slots_epochs') FROM held h WHERE n.id = h.id RETURNING n.id, n.slots_epoch
), kept AS (
    UPDATE slots s SET epoch = me.slots_epoch
    FROM me
    WHERE s.cell = $1 AND s.node_id = me.id
    RETURNING s.tenant_id, s.key, s.slot
)
SELECT me.slots_epoch, k.tenant_id, k.key, k.slot FROM me LEFT JOIN kept k ON true
