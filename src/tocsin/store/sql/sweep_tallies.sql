-- Removes tallies that are older than they are kept, within blocks $2 to $3 of the table: ten seconds of the
-- fleet a day, minutes two days, hours as long as history, which ends at $4. The cell ($1) is of no account.
-- Caller: ForgettingStore.sweep.
-- Locks: the rows, skipping those that others have.
-- Index: none.
-- Zero rows: nothing there was old.
DELETE FROM tallies WHERE ctid = ANY (ARRAY(
    SELECT t.ctid
    FROM tallies t
    WHERE t.ctid >= format('(%s,0)', $2::bigint)::tid AND t.ctid < format('(%s,0)', $3::bigint)::tid
      AND $1::smallint IS NOT NULL
      AND t.bucket < CASE t.step_s WHEN 10 THEN tocsin_now() - interval '24 hours'
                                   WHEN 60 THEN tocsin_now() - interval '48 hours' ELSE $4::timestamptz END
    FOR UPDATE SKIP LOCKED))
RETURNING 1
