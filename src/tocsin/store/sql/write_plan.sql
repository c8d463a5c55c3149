-- Advance cursors and insert the planned executions and skips, all or nothing, fenced by lease epoch. A job
-- moves only if it is active and its version and cursor are those that were read; its executions and skips
-- are written only if it moved. Whether it did is looked up in a hash of those that moved (the CASE keeps the
-- planner from making it a join), and the rest by primary key: joined with each other, with hash joins
-- switched off, two thousand jobs took seconds. Why `OFFSET 0`: see `tocsin.db.statements`.
-- Caller: PlanStore._write.
-- Locks: the shards' rows FOR SHARE (a takeover waits for us, or we see it and write nothing), the jobs, the
-- new rows.
-- Index: shards_pkey, jobs_pkey, executions_pkey.
-- Zero rows: never; one row says how many shards were still ours, how many jobs moved, how many executions
-- were new, and which of the jobs in `behind` moved: what was planned for those before is decided in the same
-- transaction.
WITH own AS (
    SELECT s.shard
    FROM unnest(:shards::smallint[], :epochs::bigint[]) AS f (shard, epoch)
    JOIN shards s ON s.shard = f.shard
    WHERE s.owner = :node_id AND s.epoch = f.epoch AND s.expires_at > tocsin_now()
    FOR SHARE OF s
), moved AS (
    UPDATE jobs j
    SET next_fire_at = c.cursor, fire_count = j.fire_count + c.fires,
        state = CASE WHEN c.cursor IS NULL THEN 'completed' ELSE j.state END
    FROM (
        SELECT :cell::smallint AS cell, g.*
        FROM unnest(:tenant_ids::integer[], :job_ids::uuid[], :job_shards::smallint[], :expected::timestamptz[],
                    :versions::integer[], :cursors::timestamptz[], :numbers_of_fires::integer[])
            AS g (tenant_id, id, shard, expected, version, cursor, fires)
        OFFSET 0
    ) AS c
    WHERE j.cell = ANY (ARRAY[c.cell]) AND j.tenant_id = ANY (ARRAY[c.tenant_id]) AND j.id = c.id
      AND j.state = 'active' AND j.next_fire_at = c.expected AND j.version = c.version
      AND c.shard IN (SELECT shard FROM own)
    RETURNING j.id
), fire AS (
    SELECT j.id, j.tenant_id, j.queue, j.policies ->> 'overlap' AS overlap,
           j.policies -> 'limit' ->> 'key' AS limit_key, route_of(j.target) AS route, f.fire_at, f.due_at, f.start_by,
           greatest(f.due_at, tocsin_now() + f.wait) AS run_at, f.late, f.grace,
           CASE WHEN f.late THEN :catch_up_priority::smallint ELSE j.priority END AS priority,
           CASE WHEN f.late THEN 'catch_up' ELSE 'schedule' END AS cause
    FROM (
        SELECT :cell::smallint AS cell, g.*
        FROM unnest(:fire_tenant_ids::integer[], :fire_job_ids::uuid[], :fire_ats::timestamptz[], :due_ats::timestamptz[],
                    :waits::interval[], :late::boolean[], :start_bys::timestamptz[], :graces::interval[])
            AS g (tenant_id, id, fire_at, due_at, wait, late, start_by, grace)
        OFFSET 0
    ) AS f
    JOIN jobs j ON j.cell = ANY (ARRAY[f.cell]) AND j.tenant_id = ANY (ARRAY[f.tenant_id]) AND j.id = f.id
    WHERE CASE WHEN f.id IN (SELECT id FROM moved) THEN true END
), planned AS (
    INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, start_by, cause, overlap,
                            limit_key, route, waits, missed_after)
    SELECT :cell, id, fire_at, tenant_id, queue, priority, due_at, run_at, start_by, cause, overlap, limit_key, route,
           CASE WHEN due_at < tocsin_now() AND cause = 'schedule'
                THEN jsonb_build_array(jsonb_build_object('for', 'planning', 'since', microseconds(due_at))) END,
           CASE WHEN late THEN run_at ELSE due_at END + grace
    FROM fire
    ON CONFLICT DO NOTHING
    RETURNING 1
), skipped AS (
    INSERT INTO history (cell, job_id, fire_at, fire_until, fire_count, tenant_id, queue, priority, cause, state,
                         due_at, run_at, finished_at, attempt, reason)
    SELECT :cell, j.id, k.first, k.last, k.count, j.tenant_id, j.queue, j.priority, 'schedule', 'skipped',
           k.first, k.first, tocsin_now(), 1, k.reason
    FROM (
        SELECT :cell::smallint AS cell, g.*
        FROM jsonb_to_recordset(:skips::jsonb)
            AS g (tenant_id integer, id uuid, first timestamptz, last timestamptz, count integer, reason text)
        OFFSET 0
    ) AS k
    JOIN jobs j ON j.cell = ANY (ARRAY[k.cell]) AND j.tenant_id = ANY (ARRAY[k.tenant_id]) AND j.id = k.id
    WHERE CASE WHEN k.id IN (SELECT id FROM moved) THEN true END
)
SELECT (SELECT count(*) FROM own)::integer AS own, (SELECT count(*) FROM moved)::integer AS moved,
       (SELECT count(*) FROM planned)::integer AS planned,
       (SELECT array_agg(id) FROM moved WHERE id = ANY (:behind::uuid[])) AS moved_late,
       CASE WHEN :wake THEN pg_notify('tocsin', 'ready') END AS notice
