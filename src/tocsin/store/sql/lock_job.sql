-- Take a job for a change, at the beginning of every control action's transaction.
-- Caller: locked_job.find_and_lock.
-- Locks: the job; the planner waits behind it.
-- Index: jobs_pkey.
-- Zero rows: there is no such job of this tenant.
SELECT id, tenant_id, shard, kind, queue, priority, state, schedule, policies, next_fire_at, fire_count, version,
       managed_by
FROM jobs WHERE cell = $1 AND id = $2 AND tenant_id = $3
FOR UPDATE
