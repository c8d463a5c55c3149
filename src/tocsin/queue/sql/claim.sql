-- Take ready executions for one worker. Called by PostgresQueue.claim.
-- Locks: the chosen rows, skipping any that another worker holds. Index: executions_ready, one range per lane,
-- entered at the lane's floor so that dead entries below it are never walked. What is due by the database's
-- clock is started in the same statement; the rest is held by the worker until its instant.
-- What is under a limit key is started if the worker offers an idle slot of that key: so many of each, and the highest of
-- them ($11: {"tenant:key": [number, highest]}), had under its node's epoch ($12). The job's own limit has to allow all of
-- them, and to know no rate. Without such an offer it has to pass the gate.
-- What must not overlap is started if its job has nothing else that is due or claimed; it then has the floor. Not under
-- `collapse` and `replace`: who decides about those needs rows of other workers while it keeps others from the floor, and
-- might wait for rows that are locked here while this waits for the floor.
-- Zero rows: nothing ready in these lanes.
WITH lane AS (
    SELECT *
    FROM unnest($2::text[], $3::smallint[], $4::integer[], $5::integer[], $6::timestamptz[], $7::timestamptz[])
        AS l (queue, priority, tenant_id, take, floor, until)
), me AS MATERIALIZED (
    SELECT FROM nodes n WHERE n.id = $9 AND n.slots_epoch = $12 FOR KEY SHARE
), chosen AS MATERIALIZED (
    SELECT ready.ctid, ready.limited, ready.solo
    FROM lane CROSS JOIN LATERAL (
        SELECT r.ctid, r.limit_key IS NOT NULL AS limited, r.overlap IN ('skip', 'queue') AS solo FROM executions r
        WHERE r.cell = $1 AND r.queue = lane.queue AND r.priority = lane.priority
          AND r.tenant_id = lane.tenant_id AND r.claim_token IS NULL
          AND r.run_at >= lane.floor AND r.run_at <= lane.until
        ORDER BY r.run_at
        LIMIT lane.take
        FOR UPDATE SKIP LOCKED
    ) AS ready
), seated AS MATERIALIZED (
    SELECT s.ctid
    FROM (
        SELECT e.ctid, o.slots, row_number() OVER (PARTITION BY e.tenant_id, e.limit_key ORDER BY e.run_at) AS place
        FROM executions e
        CROSS JOIN LATERAL (SELECT $11::jsonb -> (e.tenant_id || ':' || e.limit_key) AS slots OFFSET 0) AS o
        JOIN jobs j ON j.cell = ANY (ARRAY[e.cell]) AND j.tenant_id = ANY (ARRAY[e.tenant_id]) AND j.id = e.job_id
        WHERE $12::bigint IS NOT NULL
          AND e.ctid = ANY (ARRAY (SELECT c.ctid FROM chosen c WHERE c.limited AND coalesce(c.solo, true)))
          AND e.run_at <= tocsin_now() AND (e.start_by IS NULL OR e.start_by > tocsin_now())
          AND (j.policies #>> '{limit,max_parallel}')::integer >= (o.slots ->> 1)::integer
          AND j.policies #>> '{limit,rate}' IS NULL
    ) AS s
    WHERE s.place <= (s.slots ->> 0)::integer AND EXISTS (SELECT FROM me)
), floor AS (
    INSERT INTO solos (cell, job_id, fire_at)
    SELECT e.cell, e.job_id, e.fire_at FROM executions e
    WHERE e.ctid = ANY (ARRAY (
        SELECT c.ctid FROM chosen c WHERE c.solo AND (NOT c.limited OR c.ctid IN (SELECT ctid FROM seated))))
      AND e.run_at <= tocsin_now() AND (e.start_by IS NULL OR e.start_by > tocsin_now())
      AND NOT EXISTS (
        SELECT FROM executions w
        WHERE w.cell = ANY (ARRAY[e.cell]) AND w.job_id = e.job_id AND w.fire_at <> e.fire_at
          AND (w.fire_at < e.fire_at OR w.due_at <= tocsin_now() OR coalesce(w.claim_token, -1) <> -1)
        OFFSET 0)
    ORDER BY e.job_id
    ON CONFLICT DO NOTHING
    RETURNING job_id
), claimed AS (
    UPDATE executions e
    SET claim_token = $8, node_id = $9,
        deadline_at = greatest(e.run_at, tocsin_now()) + $10::interval,
        started_at = CASE WHEN e.run_at <= tocsin_now() AND (e.start_by IS NULL OR e.start_by > tocsin_now())
                          AND (e.limit_key IS NULL OR e.ctid IN (SELECT ctid FROM seated))
                          AND (e.overlap IS NULL OR e.job_id IN (SELECT job_id FROM floor))
                     THEN tocsin_now() END
    WHERE e.ctid = ANY (ARRAY (SELECT ctid FROM chosen))
    RETURNING e.cell, e.job_id, e.fire_at, e.tenant_id, e.queue, e.priority, e.due_at, e.run_at, e.start_by,
              e.deadline_at, e.started_at, e.attempt, e.earlier_attempts, e.overlap, e.limit_key, e.waits_for,
              e.origin_fire_at
)
SELECT c.job_id, c.fire_at, c.tenant_id, c.queue, c.priority, c.due_at, c.run_at, c.start_by, c.deadline_at,
       c.started_at, c.attempt, c.earlier_attempts, c.overlap, c.limit_key, c.waits_for, c.origin_fire_at,
       j.target, j.policies, j.version
FROM claimed c LEFT JOIN jobs j
    ON j.cell = ANY (ARRAY[c.cell]) AND j.tenant_id = ANY (ARRAY[c.tenant_id]) AND j.id = c.job_id
