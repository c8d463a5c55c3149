-- Which of the lanes that a worker knows have an execution that runs until `far`, when, and what the
-- worker does not know yet. Asked about once a second, with the worker's lanes, their low marks in
-- microseconds, and the transaction from which on lanes are new to the worker (`new_from`). Lanes that
-- differ in their tenant only stand beside each other, from `firsts` to `lasts`: to ship twenty thousand
-- names takes as long as half of the probes. They are in the order of the index, which saves an eighth.
-- Answers with arrays: `places` of lanes with such an execution, and when the first one runs; `crowded`
-- those of them with as many as `crowd`; new lanes; tenants that are suspended, or have limits that only
-- a newer version can read; tenants that differ from the rest; queues that are paused; and where the
-- next look for new lanes begins. Instants are converted by `date_part`, for the numerics of `extract`
-- take a third as long as the probes; it is exact to the microsecond until the year 2255.
-- Caller: Looking._ask.
-- Locks: nothing.
-- Index: executions_ready, one range per lane, from its low mark until `far`; lanes_made and
-- lanes_entered_made for new lanes.
-- Zero rows: never, one row always.
WITH found AS (
    SELECT g.first + a.place - 1 AS place, n.run_at, n.number = :crowd AS crowded
    FROM unnest(:queues::text[], :priorities::smallint[], :routes::text[], :firsts::integer[], :lasts::integer[])
        AS g (queue, priority, route, first, last)
    CROSS JOIN LATERAL unnest((:tenant_ids::integer[])[g.first:g.last], (:marks::bigint[])[g.first:g.last])
        WITH ORDINALITY AS a (tenant_id, mark, place)
    CROSS JOIN LATERAL (
        SELECT min(near.run_at) AS run_at, count(*) AS number
        FROM (
            SELECT e.run_at FROM executions e
            WHERE e.cell = :cell AND e.queue = g.queue AND e.priority = g.priority AND e.tenant_id = a.tenant_id
              AND e.route = g.route AND e.claim_token IS NULL
              AND e.run_at >= 'epoch'::timestamptz + a.mark * interval '1 microsecond' AND e.run_at <= :far
            ORDER BY e.run_at
            LIMIT :crowd
        ) AS near
    ) AS n
    WHERE n.number > 0
), new AS MATERIALIZED (
    SELECT l.queue, l.priority, l.tenant_id, l.route FROM lanes l
    WHERE l.cell = :cell AND l.made_in >= :new_from::text::xid8
    UNION
    SELECT l.queue, l.priority, l.tenant_id, l.route FROM lanes_entered l
    WHERE l.cell = :cell AND l.made_in >= :new_from::text::xid8
)
SELECT f.*, n.*, s.*, u.*, p.*, pg_snapshot_xmin(pg_current_snapshot())::text AS new_from
FROM (SELECT coalesce(array_agg(place::integer), '{}') AS places,
             coalesce(array_agg((date_part('epoch', run_at) * 1000000)::bigint), '{}') AS next_runs,
             coalesce(array_agg(place::integer) FILTER (WHERE crowded), '{}') AS crowded FROM found) AS f,
     (SELECT coalesce(array_agg(queue), '{}') AS new_queues, coalesce(array_agg(priority), '{}') AS new_priorities,
             coalesce(array_agg(tenant_id), '{}') AS new_tenants, coalesce(array_agg(route), '{}') AS new_routes
      FROM new) AS n,
     (SELECT coalesce(array_agg(id), '{}') AS suspended FROM tenants
      WHERE state <> 'active' OR jsonb_typeof(limits -> 'in_flight') NOT IN ('number', 'null')
         OR jsonb_typeof(limits -> 'fires_per_second') NOT IN ('number', 'null')) AS s,
     (SELECT coalesce(array_agg(id), '{}') AS unusual, coalesce(array_agg(weight), '{}') AS weights,
             coalesce(array_agg(CASE jsonb_typeof(limits -> 'in_flight') WHEN 'number'
                                THEN least((limits -> 'in_flight')::numeric, 2147483647)::integer END), '{}') AS in_flight,
             coalesce(array_agg(CASE jsonb_typeof(limits -> 'fires_per_second') WHEN 'number'
                                THEN (limits -> 'fires_per_second')::float8 END), '{}') AS fires_per_second
      FROM tenants WHERE weight <> 1 OR limits <> '{}') AS u,
     (SELECT coalesce(array_agg(tenant_id), '{}') AS paused_tenants, coalesce(array_agg(name), '{}') AS paused_queues
      FROM queues WHERE paused_at IS NOT NULL) AS p
