-- Take ready executions for one worker. What is due by the database's clock is started in the same statement;
-- the worker holds the rest until its instant. What is under a limit key is started if the worker offers an
-- idle slot of that key. `offer` has a number per key, {"tenant:key": count << 16 | highest slot}; the worker
-- has these slots under `slots_epoch` of its node. The job's own limit has to allow all of them, and to know
-- no rate. Without such an offer the execution has to pass the gate. What must not overlap is started, and
-- takes its job's turn, if its job has nothing else that is due, claimed or waiting. If another transaction
-- takes that turn unseen, the index of turns refuses the whole claim, and the worker repeats it. What is a
-- second late keeps why: `late_for`, or of the tenants `late_tenants` one of `late_reasons`. What has been
-- missed (`missed_after` has passed) is claimed and not started: its misfire policy decides.
-- Caller: Claiming.claim.
-- Locks: the chosen rows, skipping any that another worker holds; the worker's node, against being fenced
-- off.
-- Index: executions_ready, one range per lane, entered at the lane's low mark so that dead entries below are
-- never walked.
-- Zero rows: nothing is ready in these lanes.
WITH lane AS (
    SELECT *
    FROM unnest(:queues::text[], :priorities::smallint[], :tenant_ids::integer[], :routes::text[], :takes::integer[],
                :low_marks::timestamptz[], :untils::timestamptz[])
        AS l (queue, priority, tenant_id, route, take, low_mark, until)
), me AS MATERIALIZED (
    SELECT FROM nodes n WHERE n.id = :node_id AND n.slots_epoch = :slots_epoch FOR KEY SHARE
), chosen AS MATERIALIZED (
    SELECT ready.*
    FROM lane CROSS JOIN LATERAL (
        SELECT r.ctid, r.cell, r.job_id, r.fire_at, r.tenant_id, r.run_at, r.start_by, r.limit_key, r.overlap,
               r.missed_after
        FROM executions r
        WHERE r.cell = :cell AND r.queue = lane.queue AND r.priority = lane.priority
          AND r.tenant_id = lane.tenant_id AND r.route = lane.route AND r.claim_token IS NULL
          AND r.run_at >= lane.low_mark AND r.run_at <= lane.until
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
            SELECT *, (:offer::jsonb -> (tenant_id || ':' || limit_key))::integer AS slots FROM chosen
            WHERE limit_key IS NOT NULL AND run_at <= tocsin_now() AND (start_by IS NULL OR start_by > tocsin_now())
              AND (missed_after IS NULL OR missed_after >= tocsin_now())
            OFFSET 0
        ) AS o
        CROSS JOIN LATERAL (
            SELECT FROM jobs j
            WHERE j.cell = o.cell AND j.tenant_id = o.tenant_id AND j.id = o.job_id
              AND jsonb_typeof(j.policies #> '{limit,max_parallel}') = 'number'
              AND j.policies #> '{limit,max_parallel}' >= to_jsonb(o.slots & 65535)
              AND j.policies #>> '{limit,rate}' IS NULL
            OFFSET 0
        ) AS allowed
        WHERE o.slots IS NOT NULL
    ) AS s
    WHERE s.place <= s.number AND :slots_epoch::bigint IS NOT NULL AND EXISTS (SELECT FROM me)
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
               OR w.has_turn OR w.waits_for = 'turn')
        OFFSET 0))
), claimed AS (
    UPDATE executions e
    SET claim_token = :token, node_id = :node_id, worker_id = :worker_id,
        deadline_at = greatest(e.run_at, tocsin_now()) + :ttl::interval,
        started_at = CASE WHEN CASE WHEN e.limit_key IS NULL AND e.overlap IS NULL
                                    THEN e.run_at <= tocsin_now() AND (e.start_by IS NULL OR e.start_by > tocsin_now())
                                         AND (e.missed_after IS NULL OR e.missed_after >= tocsin_now())
                                    ELSE e.ctid IN (SELECT ctid FROM passed) END
                     THEN tocsin_now() END,
        late_for = CASE WHEN e.run_at < tocsin_now() - interval '1 second'
                        THEN coalesce((:late_reasons::text[])[array_position(:late_tenants::integer[], e.tenant_id)],
                                      :late_for) END,
        has_turn = e.has_turn OR e.overlap IS NOT NULL AND e.ctid IN (SELECT ctid FROM passed)
    WHERE e.ctid = ANY (ARRAY (SELECT ctid FROM chosen))
    RETURNING e.cell, e.job_id, e.fire_at, e.tenant_id, e.queue, e.priority, e.route, e.due_at, e.run_at, e.start_by,
              e.deadline_at, e.started_at, e.attempt, e.earlier_attempts, e.overlap, e.limit_key, e.waits_for,
              e.origin_fire_at, e.missed_after, e.claim_token, e.has_turn
)
\ir claim_columns.sql
FROM claimed e LEFT JOIN LATERAL (
    SELECT * FROM jobs j WHERE j.cell = e.cell AND j.tenant_id = e.tenant_id AND j.id = e.job_id OFFSET 0) AS j ON true
