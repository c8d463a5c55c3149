-- Lanes that nothing entered for an hour. Called by UnusedLanes.remove inside its transaction, before remove_unused_lanes.
-- Locks: those lanes, against executions that enter them; lanes that something enters at this moment are passed over.
-- A small table, read whole. Zero rows: every lane was used.
SELECT queue, priority, tenant_id FROM lanes
WHERE cell = $1 AND used_at < tocsin_now() - interval '1 hour'
ORDER BY used_at
LIMIT $2
FOR UPDATE SKIP LOCKED
