-- Remove remote workers that were not heard of since $4, within blocks $2 to $3 of the table. $1, the
-- cell, is of no account: workers have none.
-- Caller: ForgettingStore.sweep.
-- Locks: the workers, skipping those that others have.
-- Index: none. Blocks are read by their number.
-- Zero rows: there was none. Else a row for each worker.
DELETE FROM workers WHERE ctid = ANY (ARRAY(
    SELECT w.ctid
    FROM workers w
    WHERE w.ctid >= format('(%s,0)', $2::bigint)::tid AND w.ctid < format('(%s,0)', $3::bigint)::tid
      AND w.seen_at < $4 AND $1::smallint IS NOT NULL
    FOR UPDATE SKIP LOCKED))
RETURNING 1
