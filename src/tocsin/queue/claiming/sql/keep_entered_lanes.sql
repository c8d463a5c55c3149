-- Move lanes that applications entered first into the directory of all lanes.
-- Caller: EnteredLanes.keep.
-- Locks: the rows that are moved; a lane that a batch makes at this moment, until the batch has committed.
-- Index: none, a small table that is read whole.
-- Zero rows: nothing was entered, or the lanes were there already.
WITH moved AS (
    DELETE FROM lanes_entered WHERE cell = :cell RETURNING cell, queue, priority, tenant_id, route
)
INSERT INTO lanes (cell, queue, priority, tenant_id, route)
SELECT DISTINCT cell, queue, priority, tenant_id, route FROM moved ORDER BY 1, 2, 3, 4, 5
ON CONFLICT DO NOTHING
RETURNING 1
