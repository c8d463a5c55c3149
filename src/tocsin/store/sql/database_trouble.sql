-- What may be wrong with the database, from its catalogue and its own lists alone: this waits for no lock, as
-- the holder of one may be the trouble. $1 days of history are kept.
-- Caller: PictureStore.take.
-- Locks: nothing.
-- Index: none; the catalogue, and the statistics that the server keeps.
-- Zero rows: never, always one.
SELECT tocsin_now() AS now, current_setting('fsync')::boolean AS fsync, current_setting('autovacuum')::boolean AS autovacuum,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('max_connections')::integer AS max_connections,
       a.connections, o.pid AS oldest_pid, o.application_name AS oldest_by,
       extract(epoch FROM clock_timestamp() - o.xact_start)::float8 AS oldest_s,
       (SELECT json_agg(b) FROM (
            SELECT holder.pid, holder.application_name AS name, count(*)::integer AS blocks,
                   max(extract(epoch FROM clock_timestamp() - waiting.query_start))::float8 AS seconds
            FROM pg_stat_activity waiting
            CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS by (pid)
            JOIN pg_stat_activity holder ON holder.pid = by.pid
            WHERE waiting.datname = current_database() AND waiting.wait_event_type = 'Lock'
            GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 5) AS b) AS blockers,
       (SELECT json_agg(s) FROM (
            SELECT slot_name AS name,
                   coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint AS kept_bytes
            FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL LIMIT 5) AS s) AS slots,
       (SELECT json_agg(t) FROM (
            SELECT s.relname AS table, s.n_dead_tup AS dead, s.n_live_tup AS live FROM pg_stat_user_tables s
            WHERE s.schemaname = 'tocsin' AND s.n_dead_tup > greatest($2::bigint, s.n_live_tup)
            ORDER BY s.n_dead_tup DESC LIMIT 5) AS t) AS bloated,
       ARRAY (SELECT parent || to_char(day, ' YYYY-MM-DD')
              FROM unnest(ARRAY['history', 'audit', 'attempt_logs']) AS parent,
                   generate_series((tocsin_now() AT TIME ZONE 'UTC')::date, (tocsin_now() AT TIME ZONE 'UTC')::date + 1, '1 day') AS day
              WHERE to_regclass(parent || to_char(day, '_YYYYMMDD')) IS NULL) AS missing_days,
       pg_stat_get_live_tuples('history_default'::regclass) + pg_stat_get_live_tuples('audit_default'::regclass) AS stray_rows,
       greatest(0, (SELECT (tocsin_now() AT TIME ZONE 'UTC')::date - $1::integer - min(to_date(right(c.relname, 8), 'YYYYMMDD'))
                    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                    WHERE i.inhparent = 'history'::regclass AND c.relname ~ '^history_\d{8}$')) AS overdue_days
FROM (SELECT count(*)::integer AS connections FROM pg_stat_activity WHERE datname = current_database()) AS a
LEFT JOIN LATERAL (
    SELECT pid, application_name, xact_start FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1) AS o ON true
