-- The active recurring jobs of shards by tenant, queue and equal schedule, the largest groups first; $3 jobs
-- of a shard at most. Where jobs of one schedule fire apart, by jitter or because their
-- number of fires is limited, also the first $4 of them.
-- Caller: Foreseeing.groups.
-- Locks: nothing.
-- Index: jobs_to_plan, one range per shard.
-- Zero rows: no recurring job is active.
SELECT s.shard, g.* FROM unnest($2::smallint[]) AS s (shard) CROSS JOIN LATERAL (
    SELECT j.tenant_id, j.queue, j.schedule::text AS schedule, count(*)::integer AS number,
           (array_agg(j.id ORDER BY j.id))[1] AS job_id, (array_agg(j.name ORDER BY j.id))[1] AS name,
           (array_agg(j.id ORDER BY j.id) FILTER (WHERE j.apart))[1:$4] AS ids,
           (array_agg(j.fire_count ORDER BY j.id) FILTER (WHERE j.apart))[1:$4] AS fire_counts,
           (array_agg(j.next_fire_at ORDER BY j.id) FILTER (WHERE j.apart))[1:$4] AS cursors
    FROM (SELECT j.id, j.tenant_id, j.name, j.queue, j.schedule, j.fire_count, j.next_fire_at,
                 j.schedule ?| ARRAY['jitter', 'max_fires'] AS apart
          FROM jobs j
          WHERE j.cell = $1 AND j.shard = s.shard AND j.state = 'active' AND j.kind = 'recurring'
            AND j.next_fire_at IS NOT NULL
          LIMIT $3) AS j
    GROUP BY j.tenant_id, j.queue, j.schedule
    ORDER BY 4 DESC, 5
) AS g
