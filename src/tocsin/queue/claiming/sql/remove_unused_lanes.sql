-- Remove those of some lanes that have no live execution; the others count as used. The lanes were locked by
-- the statement before, so this one sees everything that entered them. What is claimed belongs to its lane,
-- too, for it may come back.
-- Caller: UnusedLanes.remove.
-- Locks: the lanes.
-- Index: executions_ready, one probe per lane; executions_deadline, all that is claimed, once.
-- Zero rows: never; it returns how many were removed.
WITH held AS (
    SELECT * FROM unnest(:queues::text[], :priorities::smallint[], :tenant_ids::integer[], :routes::text[])
        AS l (queue, priority, tenant_id, route)
), claimed AS MATERIALIZED (
    SELECT DISTINCT e.queue, e.priority, e.tenant_id, e.route FROM executions e
    WHERE e.cell = :cell AND e.claim_token IS NOT NULL
), used AS MATERIALIZED (
    SELECT h.* FROM held h
    WHERE (h.queue, h.priority, h.tenant_id, h.route) IN (
            SELECT c.queue, c.priority, c.tenant_id, c.route FROM claimed c)
       OR EXISTS (
           SELECT FROM executions e
           WHERE e.cell = :cell AND e.queue = h.queue AND e.priority = h.priority AND e.tenant_id = h.tenant_id
             AND e.route = h.route AND e.claim_token IS NULL)
), touched AS (
    UPDATE lanes l SET used_at = tocsin_now()
    FROM used u
    WHERE l.cell = :cell AND l.queue = u.queue AND l.priority = u.priority AND l.tenant_id = u.tenant_id
      AND l.route = u.route
), removed AS (
    DELETE FROM lanes l USING held h
    WHERE l.cell = :cell AND l.queue = h.queue AND l.priority = h.priority AND l.tenant_id = h.tenant_id
      AND l.route = h.route
      AND (h.queue, h.priority, h.tenant_id, h.route) NOT IN (
            SELECT u.queue, u.priority, u.tenant_id, u.route FROM used u)
    RETURNING 1
)
SELECT count(*)::integer AS removed FROM removed
