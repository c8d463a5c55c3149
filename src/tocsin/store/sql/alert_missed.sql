-- Recurring jobs of tenants ($1) with fires that were missed and do not run, decided from $2 on: the newest
-- $3 of each tenant are read, and $4 jobs told.
-- Caller: AlertSources.did_not_run.
-- Locks: nothing.
-- Index: history_missed, history_by_end. The second is for days from before the first.
-- Zero rows: nothing was missed.
SELECT t.id AS tenant_id, g.*
FROM unnest($1::integer[]) AS t (id)
CROSS JOIN LATERAL (
    SELECT s.job_id, sum(s.fire_count)::integer AS number, max(coalesce(s.fire_until, s.fire_at)) AS fire_at
    FROM (
        SELECT h.job_id, h.fire_count, h.fire_at, h.fire_until FROM history h
        WHERE h.tenant_id = t.id AND h.state = 'skipped' AND h.reason LIKE 'misfire%' AND h.finished_at >= $2
        ORDER BY h.finished_at DESC LIMIT $3
    ) AS s
    GROUP BY 1 ORDER BY 2 DESC LIMIT $4
) AS g
