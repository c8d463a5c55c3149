-- Remove backfills that were over before $4, within blocks $2 to $3 of the table: the history of what they
-- fired is gone.
-- Caller: ForgettingStore.sweep.
-- Locks: the backfills, skipping those that others have.
-- Index: none. Blocks are read by their number.
-- Zero rows: there was none. Else a row for each backfill.
DELETE FROM backfills WHERE ctid = ANY (ARRAY(
    SELECT b.ctid
    FROM backfills b
    WHERE b.ctid >= format('(%s,0)', $2::bigint)::tid AND b.ctid < format('(%s,0)', $3::bigint)::tid
      AND b.cell = $1 AND b.state <> 'running' AND b.finished_at < $4
    FOR UPDATE SKIP LOCKED))
RETURNING 1
