-- Give slots back. Called inside the transaction in which the attempts ended; the token keeps a late worker from
-- freeing a slot that is somebody else's by now. Whoever does not know the slot ($7) has all of the key looked at.
UPDATE limit_slots s SET job_id = NULL, fire_at = NULL, claim_token = NULL
FROM (
    SELECT $1::smallint AS cell, g.*
    FROM unnest($2::integer[], $3::text[], $4::uuid[], $5::timestamptz[], $6::bigint[], $7::smallint[])
        AS g (tenant_id, key, job_id, fire_at, token, slot)
    OFFSET 0
) AS d
WHERE s.cell = ANY (ARRAY[d.cell]) AND s.tenant_id = d.tenant_id AND s.key = d.key
  AND s.slot BETWEEN coalesce(d.slot, 0::smallint) AND coalesce(d.slot, 32767::smallint)
  AND s.job_id = d.job_id AND s.fire_at = d.fire_at AND s.claim_token = d.token
