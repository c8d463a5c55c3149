-- Remove operations that were over before $4, within blocks $2 to $3 of the table. $1, the cell, is of no
-- account: operations have none.
-- Caller: ForgettingStore.sweep.
-- Locks: the operations, skipping those that others have.
-- Index: none. Blocks are read by their number.
-- Zero rows: there was none. Else a row for each operation.
DELETE FROM operations WHERE ctid = ANY (ARRAY(
    SELECT o.ctid
    FROM operations o
    WHERE o.ctid >= format('(%s,0)', $2::bigint)::tid AND o.ctid < format('(%s,0)', $3::bigint)::tid
      AND o.finished_at < $4 AND $1::smallint IS NOT NULL
    FOR UPDATE SKIP LOCKED))
RETURNING 1
