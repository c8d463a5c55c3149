-- Take free slots for this worker: `numbers` of each key, among its first `slot_counts`. Runs for claims that
-- found none among those the worker has already. They are the worker's until it gives them back, or until its
-- node is fenced off (see `fence_nodes`): the epoch says so. Nothing is taken under an epoch that is over.
-- Caller: Slots._take_free.
-- Locks: free slots, skipping those another worker is taking; the worker's node, against being fenced off.
-- Index: slots_pkey, one range per key.
-- Zero rows: every slot is taken, or the epoch is over.
WITH me AS MATERIALIZED (
    SELECT n.id, n.slots_epoch FROM nodes n WHERE n.id = :node_id AND n.slots_epoch = :slots_epoch FOR KEY SHARE
), free AS MATERIALIZED (
    SELECT f.ctid
    FROM unnest(:tenant_ids::integer[], :keys::text[], :slot_counts::integer[], :numbers::integer[]) AS w (tenant_id, key, slots, number)
    CROSS JOIN LATERAL (
        SELECT s.ctid FROM slots s
        WHERE s.cell = :cell AND s.tenant_id = w.tenant_id AND s.key = w.key AND s.slot <= w.slots AND s.epoch IS NULL
        LIMIT w.number
        FOR UPDATE SKIP LOCKED
    ) AS f
)
UPDATE slots s SET node_id = me.id, epoch = me.slots_epoch
FROM free f, me
WHERE s.ctid = f.ctid
RETURNING s.tenant_id, s.key, s.slot
