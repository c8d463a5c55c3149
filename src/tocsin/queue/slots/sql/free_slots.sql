-- Give slots back that this worker has and does not use. A slot that was adopted under a new epoch meanwhile
-- is not given back, and not returned. Executions that wait are woken afterwards.
-- Caller: Slots._give_back.
-- Locks: the slots.
-- Index: slots_pkey.
-- Zero rows: a new epoch has begun with all of them.
UPDATE slots s SET node_id = NULL, epoch = NULL
FROM (
    SELECT :cell::smallint AS cell, g.*
    FROM unnest(:tenant_ids::integer[], :keys::text[], :slots::smallint[]) AS g (tenant_id, key, slot)
    OFFSET 0
) AS d
WHERE s.cell = ANY (ARRAY[d.cell]) AND s.tenant_id = d.tenant_id AND s.key = d.key AND s.slot = d.slot
  AND s.node_id = :node_id AND s.epoch = :slots_epoch
RETURNING s.tenant_id, s.key
