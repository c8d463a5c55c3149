-- Remove all slots of keys of which none was taken or given back since $4, a transaction that was the oldest
-- an hour ago or earlier. For keys whose first slot is within blocks $2 to $3 of the table. All of a key or
-- none, because slots are made up to the last (make_slots). Workers ask for them to be made again when they
-- have not done so for minutes, so none remembers slots that are gone.
-- Caller: ForgettingStore.sweep.
-- Locks: all slots of the keys; leasing skips them meanwhile.
-- Index: slots_pkey.
-- Zero rows: there was none. Else a row for each slot.
WITH unused AS MATERIALIZED (
    SELECT s.tenant_id, s.key
    FROM slots s
    WHERE s.ctid >= format('(%s,0)', $2::bigint)::tid AND s.ctid < format('(%s,0)', $3::bigint)::tid
      AND coalesce(s.slot, 0) = 1 AND s.epoch IS NULL AND age(s.xmin) > age($4::xid)
), locked AS MATERIALIZED (
    SELECT l.ctid, u.tenant_id, u.key, l.unused
    FROM (SELECT * FROM unused ORDER BY tenant_id, key) AS u
    CROSS JOIN LATERAL (
        SELECT s.ctid, s.epoch IS NULL AND age(s.xmin) > age($4::xid) AS unused
        FROM slots s
        WHERE s.cell = $1 AND s.tenant_id = u.tenant_id AND s.key = u.key
        ORDER BY s.slot
        FOR UPDATE
    ) AS l
)
DELETE FROM slots WHERE ctid = ANY (ARRAY(
    SELECT l.ctid
    FROM locked l
    WHERE (l.tenant_id, l.key) IN (SELECT k.tenant_id, k.key FROM locked k GROUP BY 1, 2 HAVING bool_and(k.unused))))
RETURNING 1
