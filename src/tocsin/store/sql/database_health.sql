-- How the database itself is: its size, its connections, its oldest transaction and the largest tables
-- of ours.
-- Caller: SystemStore.health.
-- Locks: nothing.
-- Index: none; the catalogue, and the statistics that the server keeps.
-- Zero rows: never, always one.
SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS size_bytes,
       current_setting('max_connections')::integer AS max_connections, a.connections, a.oldest_s, a.oldest_by,
       (SELECT json_agg(t) FROM (
            SELECT s.relname AS name, pg_total_relation_size(s.relid) AS size_bytes, s.n_live_tup AS live_rows, s.n_dead_tup AS dead_rows
            FROM pg_stat_user_tables s WHERE s.schemaname = 'tocsin' ORDER BY 2 DESC LIMIT 12) AS t) AS tables,
       (SELECT count(*) FROM pg_inherits WHERE inhparent = 'history'::regclass)::integer AS days_of_history,
       (SELECT pg_relation_size('history_default') + pg_relation_size('audit_default')) AS stray_bytes,
       (SELECT max(number) FROM migrations) AS migration,
       (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()) AS transactions
FROM (SELECT count(*)::integer AS connections,
             max(extract(epoch FROM clock_timestamp() - xact_start))::float8 AS oldest_s,
             (array_agg(application_name ORDER BY xact_start) FILTER (WHERE xact_start IS NOT NULL))[1] AS oldest_by
      FROM pg_stat_activity WHERE datname = current_database()) AS a
