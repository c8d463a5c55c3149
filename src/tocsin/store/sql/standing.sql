-- The standbys that stream from this server, how far commits wait for them, whether they are told to, and how
-- far the last of them is behind.
-- Caller: standing.database_standing.
-- Locks: nothing.
-- Index: none; the server's own list.
-- Zero rows: never; always one row.
SELECT ARRAY (SELECT r.sync_state FROM pg_stat_replication r WHERE r.state IS NULL OR r.state = 'streaming') AS states,
       CASE WHEN NOT pg_is_in_recovery() THEN (
           SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn))::bigint FROM pg_stat_replication r
       ) END AS behind_bytes,
       (SELECT max(extract(epoch FROM r.replay_lag))::float8 FROM pg_stat_replication r) AS behind_s,
       current_setting('synchronous_standby_names') <> '' AS wanted,
       current_setting('synchronous_commit') AS synchronous_commit
