-- Lanes that nothing entered for an hour. Runs in one transaction with `remove_unused_lanes`.
-- Caller: UnusedLanes.remove.
-- Locks: those lanes, against executions that enter them; lanes that something enters at this moment are
-- passed over.
-- Index: none, a small table that is read whole.
-- Zero rows: every lane was used.
SELECT queue, priority, tenant_id, route FROM lanes
WHERE cell = :cell AND used_at < tocsin_now() - interval '1 hour'
ORDER BY used_at
LIMIT :limit
FOR UPDATE SKIP LOCKED
