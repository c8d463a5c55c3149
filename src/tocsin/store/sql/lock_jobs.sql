-- Take several jobs of a tenant for a change. Statements that follow in the transaction see them as they are
-- then.
-- Caller: Pausing.pause_idle, acting._hold.
-- Locks: the jobs, in the order of their ids; the planner waits behind it.
-- Index: jobs_pkey.
-- Zero rows: none of them is there.
SELECT id FROM jobs WHERE cell = $1 AND id = ANY ($3::uuid[]) AND tenant_id = $2 ORDER BY id FOR UPDATE
