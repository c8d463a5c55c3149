-- Remove history of a tenant ($2) that ended before $3, $4 rows of one day at most, with what the attempts
-- logged, and with one-offs that have no other history since. `the_day` stands for the name of the partition.
-- Caller: TenantForgetting.history.
-- Locks: the rows and the jobs, skipping jobs that others have.
-- Index: history_of_tenant, attempt_logs_pkey, jobs_pkey, executions_pkey, history_of_job.
-- Zero rows: the day has nothing more of it. Else a row for each execution.
WITH gone AS (
    DELETE FROM the_day WHERE ctid = ANY (ARRAY (
        SELECT h.ctid FROM the_day h WHERE h.tenant_id = $2 AND h.finished_at < $3 ORDER BY h.finished_at LIMIT $4))
    RETURNING job_id, fire_at
), logs AS (
    DELETE FROM attempt_logs l USING gone g WHERE l.cell = $1 AND l.job_id = g.job_id AND l.fire_at = g.fire_at
), over AS (
    DELETE FROM jobs WHERE ctid = ANY (ARRAY (
        SELECT f.ctid FROM (SELECT DISTINCT job_id FROM gone) AS g CROSS JOIN LATERAL (
            SELECT j.ctid FROM jobs j
            WHERE j.cell = $1 AND j.id = g.job_id AND j.kind = 'once' AND j.state <> 'paused' AND j.updated_at < $3
              AND NOT EXISTS (SELECT FROM executions e WHERE e.cell = $1 AND e.job_id = j.id OFFSET 0)
              AND NOT EXISTS (
                  SELECT FROM history h WHERE h.cell = $1 AND h.job_id = j.id AND h.finished_at >= $3 OFFSET 0)
            FOR UPDATE SKIP LOCKED
        ) AS f))
)
SELECT 1 FROM gone
