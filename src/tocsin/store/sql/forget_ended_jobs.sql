-- Forget jobs that ended on a day whose history is about to go, for one stretch of the day's partition:
-- blocks $2 to $3. `the_day` stands for the name of the partition. A one-off that was not touched since its
-- creation had one execution, and this is it. Others may have ended once more after the day ($5), and are
-- then found on that day. What was touched since $4 is kept: running or retrying a job again does so
-- (add_execution, revive_execution), and a row that is changed at this moment is looked at again.
-- Caller: ForgettingStore.ended_jobs.
-- Locks: the jobs, skipping those that others have.
-- Index: jobs_pkey, jobs_of_tenant, executions_pkey, history_of_job. The last one for jobs that were touched.
-- Zero rows: none of the stretch is to be forgotten. Else a row for each job.
DELETE FROM jobs WHERE ctid = ANY (ARRAY(
    SELECT f.ctid
    FROM (
        SELECT DISTINCT h.tenant_id, h.job_id
        FROM the_day h
        WHERE h.ctid >= format('(%s,0)', $2::bigint)::tid AND h.ctid < format('(%s,0)', $3::bigint)::tid
    ) AS e
    CROSS JOIN LATERAL (
        SELECT j.ctid
        FROM jobs j
        WHERE j.cell = $1 AND j.tenant_id = e.tenant_id AND j.id = e.job_id AND j.updated_at < $4
          AND CASE j.kind WHEN 'once' THEN j.state <> 'paused' ELSE j.state IN ('completed', 'cancelled') END
          AND NOT EXISTS (SELECT FROM executions x WHERE x.cell = $1 AND x.job_id = e.job_id OFFSET 0)
          AND (j.kind = 'once' AND j.updated_at = j.created_at OR NOT EXISTS (
              SELECT FROM history h WHERE h.cell = $1 AND h.job_id = e.job_id AND h.finished_at >= $5 OFFSET 0))
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS f))
RETURNING 1
