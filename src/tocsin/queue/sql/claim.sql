-- Take ready executions for one worker. Called by PostgresQueue.claim.
-- Locks: the chosen rows, skipping any that another worker holds. Index: executions_ready, one range per lane,
-- entered at the lane's floor so that dead entries below it are never walked. What is due by the database's
-- clock is started in the same statement; the rest is held by the worker until its instant.
-- What is under a limit key is started if the worker offers an idle slot of that key: so many of each, and the highest of
-- them ($11: {"tenant:key": number << 16 | highest}), had under its node's epoch ($12). The job's own limit has to allow all of
-- them, and to know no rate. Without such an offer it has to pass the gate.
-- What must not overlap is started if its job has nothing else that is due, claimed or waiting; it then has the floor. Should
-- somebody take the floor unseen, the index of floors refuses the whole claim, and it is made again.
-- What is a second late keeps why: $13, or of some tenants ($14) another reason ($15).
-- What has been missed (`missed_after` has passed) is claimed and not started: its misfire policy decides.
-- Zero rows: nothing ready in these lanes.
WITH lane AS (
    SELECT *
    FROM unnest($2::text[], $3::smallint[], $4::integer[], $5::integer[], $6::timestamptz[], $7::timestamptz[])
        AS l (queue, priority, tenant_id, take, floor, until)
), me AS MATERIALIZED (
    SELECT FROM nodes n WHERE n.id = $9 AND n.slots_epoch = $12 FOR KEY SHARE
), chosen AS MATERIALIZED (
    SELECT ready.*
    FROM lane CROSS JOIN LATERAL (
        SELECT r.ctid, r.cell, r.job_id, r.fire_at, r.tenant_id, r.run_at, r.start_by, r.limit_key, r.overlap,
               r.missed_after
        FROM executions r
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
        SELECT o.ctid, o.slots >> 16 AS number,
               row_number() OVER (PARTITION BY o.tenant_id, o.limit_key ORDER BY o.run_at) AS place
        FROM (
            SELECT *, ($11::jsonb -> (tenant_id || ':' || limit_key))::integer AS slots FROM chosen
            WHERE limit_key IS NOT NULL AND run_at <= tocsin_now() AND (start_by IS NULL OR start_by > tocsin_now())
              AND (missed_after IS NULL OR missed_after >= tocsin_now())
            OFFSET 0
        ) AS o
        CROSS JOIN LATERAL (
            SELECT FROM jobs j
            WHERE j.cell = o.cell AND j.tenant_id = o.tenant_id AND j.id = o.job_id
              AND (j.policies #>> '{limit,max_parallel}')::integer >= o.slots & 65535
              AND j.policies #>> '{limit,rate}' IS NULL
            OFFSET 0
        ) AS allowed
        WHERE o.slots IS NOT NULL
    ) AS s
    WHERE s.place <= s.number AND $12::bigint IS NOT NULL AND EXISTS (SELECT FROM me)
), passed AS MATERIALIZED (
    SELECT c.ctid
    FROM chosen c
    WHERE (c.limit_key IS NOT NULL OR c.overlap IS NOT NULL)
      AND c.run_at <= tocsin_now() AND (c.start_by IS NULL OR c.start_by > tocsin_now())
      AND (c.missed_after IS NULL OR c.missed_after >= tocsin_now())
      AND (c.limit_key IS NULL OR c.ctid IN (SELECT ctid FROM seated))
      AND (c.overlap IS NULL OR NOT EXISTS (
        SELECT FROM executions w
        WHERE w.cell = c.cell AND w.job_id = c.job_id AND w.fire_at <> c.fire_at
          AND (w.fire_at < c.fire_at OR w.due_at <= tocsin_now() OR coalesce(w.claim_token, -1) <> -1
               OR w.has_floor OR w.waits_for = 'turn')
        OFFSET 0))
), claimed AS (
    UPDATE executions e
    SET claim_token = $8, node_id = $9,
        deadline_at = greatest(e.run_at, tocsin_now()) + $10::interval,
        started_at = CASE WHEN CASE WHEN e.limit_key IS NULL AND e.overlap IS NULL
                                    THEN e.run_at <= tocsin_now() AND (e.start_by IS NULL OR e.start_by > tocsin_now())
                                         AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now())
                                    ELSE e.ctid IN (SELECT ctid FROM passed) END
                     THEN tocsin_now() END,
        late_for = CASE WHEN e.run_at < tocsin_now() - interval '1 second'
                        THEN coalesce(($15::text[])[array_position($14::integer[], e.tenant_id)], $13) END,
        has_floor = e.has_floor OR e.overlap IS NOT NULL AND e.ctid IN (SELECT ctid FROM passed)
    WHERE e.ctid = ANY (ARRAY (SELECT ctid FROM chosen))
    RETURNING e.cell, e.job_id, e.fire_at, e.tenant_id, e.queue, e.priority, e.due_at, e.run_at, e.start_by,
              e.deadline_at, e.started_at, e.attempt, e.earlier_attempts, e.overlap, e.limit_key, e.waits_for,
              e.origin_fire_at, e.missed_after, e.claim_token, e.has_floor
)
SELECT c.job_id, c.fire_at, c.tenant_id, c.queue, c.priority, c.due_at, c.run_at, c.start_by, c.deadline_at,
       c.started_at, c.attempt, c.earlier_attempts, c.overlap, c.limit_key, c.waits_for, c.origin_fire_at,
       c.missed_after, j.target, j.policies, j.version, c.claim_token, c.has_floor
FROM claimed c LEFT JOIN LATERAL (
    SELECT * FROM jobs j WHERE j.cell = c.cell AND j.tenant_id = c.tenant_id AND j.id = c.job_id OFFSET 0) AS j ON true
