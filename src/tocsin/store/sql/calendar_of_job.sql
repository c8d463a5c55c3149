-- How the fires of a job from $4 to $5 ended, by quarter of an hour, state and reason, of its latest $6 rows
-- of history. Days begin at full quarters in every time zone, and telling zones apart here would take longer
-- than reading the rows. `rows` and `since` say how far it reaches. Runs of skips over more than a quarter
-- come one by one, with their end.
-- Caller: TimelineStore.calendar.
-- Locks: nothing.
-- Index: history_of_job, one range.
-- Zero rows: nothing ended.
WITH newest AS MATERIALIZED (
    SELECT h.fire_at, h.state, CASE WHEN h.state = 'skipped' THEN h.reason END AS reason, h.fire_count, h.cause = 'backfill' AS backfill,
           CASE WHEN h.fire_until > h.fire_at + interval '15 min' THEN h.fire_at END AS run_from,
           CASE WHEN h.fire_until > h.fire_at + interval '15 min' THEN h.fire_until END AS run_until
    FROM history h WHERE h.cell = $1 AND h.job_id = $2 AND h.tenant_id = $3 AND h.fire_at >= $4 AND h.fire_at < $5
    ORDER BY h.fire_at DESC LIMIT $6
)
SELECT date_bin('15 min', n.fire_at, 'epoch') AS quarter, n.state, n.reason, n.backfill, n.run_from, n.run_until,
       sum(n.fire_count)::integer AS number,
       (SELECT count(*) FROM newest)::integer AS rows, (SELECT min(fire_at) FROM newest) AS since
FROM newest n GROUP BY 1, 2, 3, 4, 5, 6
