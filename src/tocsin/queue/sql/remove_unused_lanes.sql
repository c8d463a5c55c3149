-- Remove those of some lanes that have no live execution; the others count as used. Called by UnusedLanes.remove, with the lanes
-- locked by a statement before: so this one sees everything that entered them. What is claimed belongs to its lane, too, for
-- it may come back. Indexes: executions_ready, one probe per lane; executions_deadline, all that is claimed, once.
-- Returns how many were removed.
WITH held AS (
    SELECT * FROM unnest($2::text[], $3::smallint[], $4::integer[]) AS l (queue, priority, tenant_id)
), claimed AS MATERIALIZED (
    SELECT DISTINCT e.queue, e.priority, e.tenant_id FROM executions e WHERE e.cell = $1 AND e.claim_token IS NOT NULL
), used AS MATERIALIZED (
    SELECT h.* FROM held h
    WHERE (h.queue, h.priority, h.tenant_id) IN (SELECT c.queue, c.priority, c.tenant_id FROM claimed c)
       OR EXISTS (
           SELECT FROM executions e
           WHERE e.cell = $1 AND e.queue = h.queue AND e.priority = h.priority AND e.tenant_id = h.tenant_id
             AND e.claim_token IS NULL)
), touched AS (
    UPDATE lanes l SET used_at = tocsin_now()
    FROM used u
    WHERE l.cell = $1 AND l.queue = u.queue AND l.priority = u.priority AND l.tenant_id = u.tenant_id
), removed AS (
    DELETE FROM lanes l USING held h
    WHERE l.cell = $1 AND l.queue = h.queue AND l.priority = h.priority AND l.tenant_id = h.tenant_id
      AND (h.queue, h.priority, h.tenant_id) NOT IN (SELECT u.queue, u.priority, u.tenant_id FROM used u)
    RETURNING 1
)
SELECT count(*)::integer AS removed FROM removed
