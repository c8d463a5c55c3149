-- Remove keys that were revoked, or expired, before $4, within blocks $2 to $3 of the table. A key with
-- sessions stays until those are swept. $1, the cell, is of no account: keys are the installation's.
-- Caller: ForgettingStore.sweep.
-- Locks: the keys, skipping those that others have.
-- Index: dashboard_sessions_of_key.
-- Zero rows: there was none. Else a row for each key.
DELETE FROM api_keys WHERE ctid = ANY (ARRAY(
    SELECT k.ctid
    FROM api_keys k
    WHERE k.ctid >= format('(%s,0)', $2::bigint)::tid AND k.ctid < format('(%s,0)', $3::bigint)::tid
      AND $1::smallint IS NOT NULL AND least(k.revoked_at, k.expires_at) < $4
      AND NOT EXISTS (SELECT FROM dashboard_sessions s WHERE s.key_id = k.id OFFSET 0)
    FOR UPDATE SKIP LOCKED))
RETURNING 1
