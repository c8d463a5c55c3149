-- Days of a table, $1, that were over before the day $2 and are not archived whole: no part yet, or of their
-- newest round one that was not verified, or none that goes to the end. A day that was dropped and is there
-- again begins a new round. Days that failed again and again come last, so that they keep no other waiting.
-- Caller: ArchiveStore.next_day.
-- Locks: none.
-- Index: archives_pkey.
-- Zero rows: everything that is over is archived. Else the days, the oldest first.
SELECT d.day
FROM (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = $1::text::regclass AND c.relname ~ '_\d{8}$') AS d
LEFT JOIN LATERAL (
    SELECT bool_and(a.state = 'verified') AND bool_or(a.upto_at IS NULL) AS done,
           max(a.failures) > 2 AS failing
    FROM archives a
    WHERE a.name = $1 AND a.day = d.day
      AND a.round = (SELECT max(n.round) FROM archives n WHERE n.name = $1 AND n.day = d.day)
) AS a ON true
WHERE d.day < $2 AND a.done IS NOT TRUE
ORDER BY a.failing IS TRUE, d.day
