-- Remove pauses of queues that were over before $4, within blocks $2 to $3 of the table: the history of what
-- they held back is gone. $1, the cell, is of no account: pauses have none.
-- Caller: ForgettingStore.sweep.
-- Locks: the rows, skipping those that others have.
-- Index: none. Blocks are read by their number.
-- Zero rows: there was none. Else a row for each pause.
DELETE FROM queue_pauses WHERE ctid = ANY (ARRAY(
    SELECT p.ctid
    FROM queue_pauses p
    WHERE p.ctid >= format('(%s,0)', $2::bigint)::tid AND p.ctid < format('(%s,0)', $3::bigint)::tid
      AND p.resumed_at < $4 AND $1::smallint IS NOT NULL
    FOR UPDATE SKIP LOCKED))
RETURNING 1
