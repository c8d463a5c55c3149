-- Remove rates that nothing started under for an hour, within blocks $2 to $3 of the table. A rate whose next
-- place is in the past says no more than one that is not there (reserve_rate).
-- Caller: ForgettingStore.sweep.
-- Locks: the rates, skipping those that others have.
-- Index: none. Blocks are read by their number.
-- Zero rows: there was none. Else a row for each rate.
DELETE FROM limit_rates WHERE ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM limit_rates r
    WHERE r.ctid >= format('(%s,0)', $2::bigint)::tid AND r.ctid < format('(%s,0)', $3::bigint)::tid
      AND coalesce(r.cell, -1) = $1 AND r.next_at < $4::timestamptz - interval '1 hour'
    FOR UPDATE SKIP LOCKED))
RETURNING 1
