-- When the lanes that a worker knows have their next execution, and what it does not know yet. Called by PostgresQueue.peek,
-- about once a second, with the lanes ($2–$4), their marks ($5, microseconds since the epoch), and the transaction from which
-- on lanes are new to it ($8). Answers with arrays, for there may be thousands: `places` of lanes with something queued, and
-- when; `crowded` those of them with as many as $7 due until $6; new lanes; tenants that are suspended, or differ from the rest;
-- queues that are paused; and where the next look for new lanes begins.
-- Locks nothing. Index: executions_ready, one probe per lane from its mark; lanes_made for new lanes.
-- One row, always.
WITH found AS MATERIALIZED (
    SELECT a.place, n.run_at,
           n.run_at <= $6 AND $7 = (
               SELECT count(*) FROM (
                   SELECT FROM executions e
                   WHERE e.cell = $1 AND e.queue = a.queue AND e.priority = a.priority AND e.tenant_id = a.tenant_id
                     AND e.claim_token IS NULL AND e.run_at >= n.run_at AND e.run_at <= $6
                   LIMIT $7
               ) AS near
           ) AS crowded
    FROM unnest($2::text[], $3::smallint[], $4::integer[], $5::bigint[])
        WITH ORDINALITY AS a (queue, priority, tenant_id, mark, place)
    CROSS JOIN LATERAL (
        SELECT e.run_at FROM executions e
        WHERE e.cell = $1 AND e.queue = a.queue AND e.priority = a.priority AND e.tenant_id = a.tenant_id
          AND e.claim_token IS NULL AND e.run_at >= 'epoch'::timestamptz + a.mark * interval '1 microsecond'
        ORDER BY e.run_at
        LIMIT 1
    ) AS n
), new AS MATERIALIZED (
    SELECT l.queue, l.priority, l.tenant_id FROM lanes l WHERE l.cell = $1 AND l.made_in >= $8::text::xid8
)
SELECT f.*, n.*, s.*, u.*, p.*, pg_snapshot_xmin(pg_current_snapshot())::text AS new_from
FROM (SELECT coalesce(array_agg(place::integer), '{}') AS places,
             coalesce(array_agg((extract(epoch FROM run_at) * 1000000)::bigint), '{}') AS next_runs,
             coalesce(array_agg(place::integer) FILTER (WHERE crowded), '{}') AS crowded FROM found) AS f,
     (SELECT coalesce(array_agg(queue), '{}') AS new_queues, coalesce(array_agg(priority), '{}') AS new_priorities,
             coalesce(array_agg(tenant_id), '{}') AS new_tenants FROM new) AS n,
     (SELECT coalesce(array_agg(id), '{}') AS suspended FROM tenants WHERE state <> 'active') AS s,
     (SELECT coalesce(array_agg(id), '{}') AS unusual, coalesce(array_agg(weight), '{}') AS weights,
             coalesce(array_agg((limits ->> 'in_flight')::integer), '{}') AS in_flight,
             coalesce(array_agg((limits ->> 'fires_per_second')::float8), '{}') AS fires_per_second
      FROM tenants WHERE weight <> 1 OR limits <> '{}') AS u,
     (SELECT coalesce(array_agg(tenant_id), '{}') AS paused_tenants, coalesce(array_agg(name), '{}') AS paused_queues
      FROM queues WHERE paused_at IS NOT NULL) AS p
