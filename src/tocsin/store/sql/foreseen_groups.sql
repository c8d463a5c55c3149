-- The $3 largest groups of a tenant's jobs with equal schedules, in one queue or, without $2, in all.
-- Caller: ForecastStore.groups.
-- Locks: nothing.
-- Index: forecast_groups_pkey, one range.
-- Zero rows: no recurring job is active, or no scheduler has looked yet.
SELECT g.schedule, g.queue, sum(g.number)::integer AS number, (array_agg(g.job_id ORDER BY g.shard))[1] AS job_id,
       (array_agg(g.name ORDER BY g.shard))[1] AS name
FROM forecast_groups g
WHERE g.tenant_id = $1 AND ($2::text IS NULL OR g.queue = $2)
GROUP BY 1, 2 ORDER BY 3 DESC LIMIT $3
