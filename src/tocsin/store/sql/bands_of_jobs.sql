-- How the fires of some jobs from $4 to $5 ended, by buckets of $7 and by state, of the latest $6 of each
-- job. `since` says how far back a job was read, `rows` how many rows that were.
-- Caller: TimelineStore.bands.
-- Locks: nothing.
-- Index: history_of_job, one range per job.
-- Zero rows: nothing ended.
SELECT wanted.id AS job_id, b.* FROM unnest($2::uuid[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT date_bin($7::interval, n.fire_at, $4::timestamptz) AS at, n.state, sum(n.fire_count)::integer AS number,
           max(n.rows)::integer AS rows, min(n.since) AS since
    FROM (SELECT h.fire_at, h.state, h.fire_count, count(*) OVER () AS rows, min(h.fire_at) OVER () AS since
          FROM (SELECT h.fire_at, h.state, h.fire_count FROM history h
                WHERE h.cell = $1 AND h.job_id = wanted.id AND h.tenant_id = $3 AND h.fire_at >= $4 AND h.fire_at < $5
                ORDER BY h.fire_at DESC LIMIT $6) AS h) AS n
    GROUP BY 1, 2) AS b
