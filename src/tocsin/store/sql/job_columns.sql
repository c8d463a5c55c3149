-- Not a statement: the columns of a job as the API shows it. A one-off is completed once it has nothing live;
-- deriving that saves a write per execution and cannot disagree with the executions themselves.
-- Caller: Declaring.known, JobStore.get, JobListing._walk, JobListing._search, job_listing._from,
-- unique_keys._shown.
SELECT j.id, j.tenant_id, j.kind, j.name, j.description, j.tags, j.queue, j.priority, j.schedule, j.target,
       j.policies, j.next_fire_at AS unplanned_at, j.state_reason, j.paused_until, j.fire_count, j.version, j.managed_by, j.created_at, j.updated_at,
       CASE WHEN j.kind = 'once' AND j.state = 'active' AND live.fire_at IS NULL THEN 'completed' ELSE j.state END
           AS state,
       CASE WHEN j.kind = 'recurring' THEN coalesce(least(planned.fire_at, j.next_fire_at), j.next_fire_at)
            ELSE coalesce(planned.fire_at, j.next_fire_at) END AS next_fire_at
FROM jobs j
LEFT JOIN LATERAL (
    SELECT e.fire_at FROM executions e WHERE e.cell = j.cell AND e.job_id = j.id LIMIT 1
) AS live ON true
LEFT JOIN LATERAL (
    SELECT min(e.fire_at) AS fire_at FROM executions e
    WHERE e.cell = j.cell AND e.job_id = j.id AND e.started_at IS NULL AND e.attempt = 1 AND e.cause = 'schedule'
) AS planned ON true
