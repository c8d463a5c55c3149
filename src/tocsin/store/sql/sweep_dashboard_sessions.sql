-- Remove sessions and tickets that are over ($4), within blocks $2 to $3 of the table. $1, the cell, is of no
-- account: sessions are the installation's.
-- Caller: ForgettingStore.sweep.
-- Locks: the sessions, skipping those that others have.
-- Index: none. Blocks are read by their number.
-- Zero rows: there was none. Else a row for each session.
DELETE FROM dashboard_sessions WHERE ctid = ANY (ARRAY(
    SELECT s.ctid
    FROM dashboard_sessions s
    WHERE s.ctid >= format('(%s,0)', $2::bigint)::tid AND s.ctid < format('(%s,0)', $3::bigint)::tid
      AND $1::smallint IS NOT NULL AND s.expires_at < $4
    FOR UPDATE SKIP LOCKED))
RETURNING 1
