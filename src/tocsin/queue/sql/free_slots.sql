-- Give slots back that this worker has and does not use. Called by Slots.give_back, which then wakes those who wait. What has
-- been adopted under a new epoch meanwhile is not given back, and not returned.
UPDATE slots s SET node_id = NULL, epoch = NULL
FROM (
    SELECT $1::smallint AS cell, g.*
    FROM unnest($2::integer[], $3::text[], $4::smallint[]) AS g (tenant_id, key, slot)
    OFFSET 0
) AS d
WHERE s.cell = ANY (ARRAY[d.cell]) AND s.tenant_id = d.tenant_id AND s.key = d.key AND s.slot = d.slot
  AND s.node_id = $5 AND s.epoch = $6
RETURNING s.tenant_id, s.key
