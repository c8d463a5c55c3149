-- Take free slots for this worker, so many of each key ($5) as there are free ones among its first ($4). Called by
-- Slots.take for claims that found none among those the worker has already.
-- They are the worker's until it gives them back, or until its node is fenced off (see `fence_nodes`): the epoch says so.
-- Nothing is taken under an epoch that is over.
-- Locks: free slots, skipping those another worker is taking.
WITH me AS MATERIALIZED (
    SELECT n.id, n.slots_epoch FROM nodes n WHERE n.id = $6 AND n.slots_epoch = $7 FOR KEY SHARE
), free AS MATERIALIZED (
    SELECT f.ctid
    FROM unnest($2::integer[], $3::text[], $4::integer[], $5::integer[]) AS w (tenant_id, key, slots, number)
    CROSS JOIN LATERAL (
        SELECT s.ctid FROM slots s
        WHERE s.cell = $1 AND s.tenant_id = w.tenant_id AND s.key = w.key AND s.slot <= w.slots AND s.epoch IS NULL
        LIMIT w.number
        FOR UPDATE SKIP LOCKED
    ) AS f
)
UPDATE slots s SET node_id = me.id, epoch = me.slots_epoch
FROM free f, me
WHERE s.ctid = f.ctid
RETURNING s.tenant_id, s.key, s.slot
