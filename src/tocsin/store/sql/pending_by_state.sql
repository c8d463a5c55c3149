-- How many recurring jobs a tenant has, and how many are paused; $2 rows are read at most.
-- Caller: StatsStore.load.
-- Locks: nothing.
-- Index: jobs_pending.
-- Zero rows: never; always one row.
SELECT count(*)::integer AS number, (count(*) FILTER (WHERE p.state = 'paused'))::integer AS paused
FROM (SELECT j.state FROM jobs j
      WHERE j.tenant_id = $1 AND (j.state = 'paused' OR (j.state = 'active' AND j.kind = 'recurring')) LIMIT $2) AS p
