-- How many jobs of a tenant still have something to do, at most $3. Each part stops at $3 rows, so that a
-- tenant far over its limit costs no more than one at it. Later than the horizon ($2 seconds) only one-offs
-- are queued, counted by their executions alone; before it, an execution may be a recurring job's, which
-- counts once as a job and not by its executions. Claimed and running executions are left out: they are about
-- to be over.
-- Caller: TenantStore.pending_jobs.
-- Locks: nothing.
-- Index: executions_ready, jobs_pkey, jobs_pending.
-- Zero rows: never; always one row.
SELECT least($3::bigint,
    (SELECT count(*) FROM (
        SELECT FROM lanes l CROSS JOIN LATERAL (
            SELECT FROM executions e
            WHERE e.cell = l.cell AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id
              AND e.run_at > tocsin_now() + make_interval(secs => $2) AND e.claim_token IS NULL
            LIMIT $3) AS later
        WHERE l.tenant_id = $1 LIMIT $3) AS later)
  + (SELECT count(*) FROM (
        SELECT FROM lanes l CROSS JOIN LATERAL (
            SELECT FROM executions e
            JOIN jobs j ON j.cell = e.cell AND j.id = e.job_id AND j.kind = 'once'
            WHERE e.cell = l.cell AND e.queue = l.queue AND e.priority = l.priority AND e.tenant_id = l.tenant_id
              AND e.run_at <= tocsin_now() + make_interval(secs => $2) AND e.claim_token IS NULL
            LIMIT $3) AS soon
        WHERE l.tenant_id = $1 LIMIT $3) AS soon)
  + (SELECT count(*) FROM (
        SELECT FROM jobs
        WHERE tenant_id = $1 AND (state = 'paused' OR (state = 'active' AND kind = 'recurring')) LIMIT $3) AS standing)
)::bigint AS pending
