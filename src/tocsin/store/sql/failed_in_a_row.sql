-- How many of the latest executions of a job failed for good in a row, as far as its version $3 ran them.
-- What was skipped or cancelled, or expired, tells nothing about its target and is passed over. Looks at the
-- $4 latest fire times. Runs with the job locked.
-- Caller: Pausing._pause_failed.
-- Locks: nothing.
-- Index: history_of_job.
-- Zero rows: never; always one row.
SELECT count(*)::integer AS failed
FROM (
    SELECT h.state, bool_or(h.state = 'succeeded') OVER (ORDER BY h.finished_at DESC, h.fire_at DESC) AS broken
    FROM (
        SELECT h.state, h.job_version, h.finished_at, h.fire_at FROM history h
        WHERE h.cell = $1 AND h.job_id = $2 ORDER BY h.fire_at DESC LIMIT $4
    ) AS h
    WHERE h.state IN ('succeeded', 'dead') AND h.job_version = $3
) AS ended
WHERE ended.state = 'dead' AND NOT ended.broken
