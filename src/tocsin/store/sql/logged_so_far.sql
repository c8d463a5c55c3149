-- How much attempts have logged: the last line's number, and the bytes up to it.
-- Caller: LogStore.append.
-- Locks: nothing.
-- Index: attempt_logs_pkey, its end for each attempt.
-- Zero rows: none of them has logged anything.
SELECT a.place::integer - 1 AS place, l.seq, l.total
FROM unnest($2::uuid[], $3::timestamptz[], $4::smallint[]) WITH ORDINALITY AS a (job_id, fire_at, attempt, place)
CROSS JOIN LATERAL (
    SELECT seq, total FROM attempt_logs
    WHERE cell = $1 AND job_id = a.job_id AND fire_at = a.fire_at AND attempt = a.attempt
    ORDER BY seq DESC LIMIT 1) AS l
