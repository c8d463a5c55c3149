-- How many fires of a tenant's recurring jobs are due in each minute from $2 to before $3, in one queue or,
-- without $4, in all.
-- Caller: ForecastStore.load.
-- Locks: nothing.
-- Index: forecasts_pkey, one range.
-- Zero rows: nothing is to fire, or no scheduler has looked yet.
SELECT f.at, sum(f.fires)::float8 AS fires
FROM (
    SELECT d.day::timestamp AT TIME ZONE 'UTC' + u.minute * interval '1 min' AS at, u.fires
    FROM forecasts d CROSS JOIN LATERAL unnest(d.minutes, d.fires) AS u (minute, fires)
    WHERE d.tenant_id = $1 AND d.day >= ($2::timestamptz AT TIME ZONE 'UTC')::date
      AND d.day <= ($3::timestamptz AT TIME ZONE 'UTC')::date AND ($4::text IS NULL OR d.queue = $4)
) AS f
WHERE f.at >= $2 AND f.at < $3
GROUP BY 1
