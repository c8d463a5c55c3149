-- Remove alerts that were resolved before $1, and of each rule all but the latest $2 of which nothing is left
-- to tell.
-- Caller: AlertCourses.forget.
-- Locks: the rows. No other statement writes what is resolved and told, unless the same trouble comes back;
-- then the look after writes it anew.
-- Index: none, the search walks all alerts, once an hour.
-- Zero rows: always.
DELETE FROM alerts WHERE ctid = ANY (ARRAY(
    SELECT a.ctid
    FROM (
        SELECT o.ctid, o.resolved_at, o.told, row_number() OVER (PARTITION BY o.tenant_id, o.rule ORDER BY o.resolved_at DESC) AS place
        FROM alerts o WHERE o.state = 'resolved'
    ) AS a
    WHERE a.resolved_at < $1 OR a.place > $2 AND a.told = 'resolved'))
