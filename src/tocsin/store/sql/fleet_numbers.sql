-- Numbers about the whole fleet for `/metrics`, each by an index, a limit or a statistic that the server
-- keeps: none of them grows with the backlog or the history. `first_unplanned` is the earliest fire time
-- that no scheduler has planned. Dead letters are counted up to $2, in the order of their index, so that it
-- is read and not the table.
-- Caller: SystemStore.numbers, PictureStore._fleet.
-- Locks: nothing.
-- Index: jobs_to_plan, one probe per shard; history_dead or history_dead_letters of each day.
-- Zero rows: never, always one.
SELECT s.shards, s.unowned, s.first_unplanned,
       (SELECT count(*) FROM (
            SELECT FROM history h WHERE h.state = 'dead' AND h.discarded_at IS NULL
            ORDER BY h.tenant_id, h.finished_at LIMIT $2) AS letter)::integer AS dead_letters,
       pg_stat_get_live_tuples('executions'::regclass) AS executions_live,
       (SELECT count(*) FROM queues WHERE paused_at IS NOT NULL)::integer AS queues_paused,
       a.connections, a.oldest_s, current_setting('max_connections')::integer AS max_connections
FROM (SELECT count(*)::integer AS shards,
             (count(*) FILTER (WHERE l.owner IS NULL OR l.expires_at <= tocsin_now()))::integer AS unowned,
             min(first.next_fire_at) AS first_unplanned
      FROM shards l LEFT JOIN LATERAL (
          SELECT j.next_fire_at FROM jobs j
          WHERE j.cell = $1 AND j.shard = l.shard AND j.state = 'active' AND j.kind = 'recurring'
          ORDER BY j.next_fire_at LIMIT 1) AS first ON true) AS s
CROSS JOIN (
    SELECT count(*)::integer AS connections, max(extract(epoch FROM clock_timestamp() - xact_start))::float8 AS oldest_s
    FROM pg_stat_activity WHERE datname = current_database()) AS a
