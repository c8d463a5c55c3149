-- Give dead letters up: they are not listed as such any more, and stay in history.
-- Caller: DeadLetterStore.discard_all.
-- Locks: the rows.
-- Index: history_of_job, one look per letter and day.
-- Zero rows: none is dead, or all were discarded before, or brought back meanwhile. Else a row for each that
-- was discarded.
UPDATE history h SET discarded_at = tocsin_now()
FROM (
    SELECT $1::smallint AS cell, g.* FROM unnest($3::uuid[], $4::timestamptz[]) AS g (job_id, fire_at) OFFSET 0
) AS d
WHERE h.cell = ANY (ARRAY[d.cell]) AND h.job_id = d.job_id AND h.fire_at = d.fire_at AND h.tenant_id = $2
  AND h.state = 'dead' AND h.discarded_at IS NULL
RETURNING h.job_id, h.fire_at
