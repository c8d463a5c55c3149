-- Give a job another definition. Runs inside the transaction that changes the job.
-- Caller: changing._write_definition.
-- Locks: the job, which is locked already; a name that another creation is about to take is waited for.
-- Index: jobs_pkey, jobs_name.
-- Zero rows: it returns none.
UPDATE jobs
SET name = :name, description = :description, tags = string_to_array(:tags, E'\x1f'), queue = :queue, priority = :priority,
    schedule = :schedule, target = :target, policies = :policies
WHERE cell = :cell AND id = :job_id
