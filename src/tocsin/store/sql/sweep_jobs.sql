-- Forget jobs that are over and have no history, within blocks $2 to $3 of the table, unless they were
-- touched since $4. Nearly all ended jobs go with the day of their end (forget_ended_jobs); these never ran,
-- or were kept then for a reason that is gone.
-- Caller: ForgettingStore.sweep.
-- Locks: the jobs, skipping those that others have.
-- Index: executions_pkey, history_of_job. Blocks of jobs are read by their number; history is asked on all
-- days.
-- Zero rows: there was none. Else a row for each job.
DELETE FROM jobs WHERE ctid = ANY (ARRAY(
    SELECT j.ctid
    FROM jobs j
    WHERE j.ctid >= format('(%s,0)', $2::bigint)::tid AND j.ctid < format('(%s,0)', $3::bigint)::tid AND j.updated_at < $4
      AND CASE j.kind WHEN 'once' THEN j.state <> 'paused' ELSE j.state IN ('completed', 'cancelled') END
      AND NOT EXISTS (SELECT FROM executions x WHERE x.cell = $1 AND x.job_id = j.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM history h WHERE h.cell = $1 AND h.job_id = j.id OFFSET 0)
    FOR UPDATE SKIP LOCKED))
RETURNING 1
