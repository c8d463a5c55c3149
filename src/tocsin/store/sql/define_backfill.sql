-- Write a backfill of a job down, with the schedule that the job has now.
-- Caller: BackfillStore.define.
-- Locks: the new row.
-- Index: jobs_pkey.
-- Zero rows: there is no such job of this tenant.
INSERT INTO backfills (tenant_id, cell, job_id, shard, schedule, range_from, range_to, mode, direction, pace, max_parallel,
                       total)
SELECT :tenant_id, cell, id, shard, schedule, :range_from, :range_to, :mode, :direction, :pace, :max_parallel, :total
FROM jobs WHERE cell = :cell AND id = :job_id AND tenant_id = :tenant_id
RETURNING id, pg_notify('tocsin', 'backfill')
