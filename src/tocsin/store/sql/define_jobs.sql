-- Insert jobs, and for one-offs their execution, in one statement: everything that arrived during the
-- previous commit. Only jobs whose names must be unique are inserted with ON CONFLICT: it costs each row a
-- lock, a look and a second log record, and most jobs are one-offs. This transaction acts for `tenants`: no
-- row of `given` exists before that is set, so the policies of what is inserted from it see it. Creations
-- with an actor are noted in the audit log, one by one or, when they are one request, by one entry that
-- lists them; then only the first job needs to name its actor. Columns that cannot be NULL come as one value
-- where all are equal; due_at comes where it is not fire_at.
-- Caller: jobs._define.
-- Locks: the new rows; a second creation of one name waits for the first to commit.
-- Index: jobs_name.
-- Zero rows: every job was created and no worker is woken. A row with an id is a job whose name is taken; a
-- last row without id carries the wake-up for workers.
WITH given AS (
    SELECT coalesce(g.kind, (:kinds::text[])[1]) = 'recurring' AND g.name IS NOT NULL AS unique_name,
           coalesce(g.tenant_id, (:tenant_ids::integer[])[1]) AS tenant_id, g.id, coalesce(g.shard, (:shards::smallint[])[1]) AS shard,
           coalesce(g.kind, (:kinds::text[])[1]) AS kind, g.name, g.description, g.tags,
           coalesce(g.queue, (:queues::text[])[1]) AS queue, coalesce(g.priority, (:priorities::smallint[])[1]) AS priority,
           coalesce(g.schedule, (:schedules::jsonb[])[1]) AS schedule, coalesce(g.target, (:targets::jsonb[])[1]) AS target,
           coalesce(g.policies, (:policies::jsonb[])[1]) AS policies,
           coalesce(g.fire_at, (:fire_ats::timestamptz[])[1]) AS fire_at,
           coalesce(g.due_at, g.fire_at, (:fire_ats::timestamptz[])[1]) AS due_at, g.start_by,
           coalesce(g.created_at, (:created_ats::timestamptz[])[1]) AS created_at, g.actor, g.request_id, g.address, g.via
    FROM (SELECT set_config('tocsin.tenants', :tenants, true)) AS acting,
         unnest(:ids::uuid[], :tenant_ids::integer[], :shards::smallint[], :kinds::text[], :names::text[],
                :descriptions::text[], :tags::text[], :queues::text[], :priorities::smallint[], :schedules::jsonb[],
                :targets::jsonb[], :policies::jsonb[], :fire_ats::timestamptz[], :due_ats::timestamptz[],
                :start_bys::timestamptz[], :actors::text[], :request_ids::text[], :addresses::text[],
                :vias::text[], :created_ats::timestamptz[])
        AS g (id, tenant_id, shard, kind, name, description, tags, queue, priority, schedule, target, policies,
              fire_at, due_at, start_by, actor, request_id, address, via, created_at)
), plain AS (
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, name, description, tags, queue, priority, schedule,
                      target, policies, next_fire_at, created_at, updated_at)
    SELECT :cell, id, tenant_id, shard, kind, name, description, coalesce(string_to_array(tags, E'\x1f'), '{}'), queue, priority,
           schedule, target, policies, CASE WHEN kind = 'recurring' THEN fire_at END, created_at, created_at
    FROM given WHERE NOT unique_name
), named AS (
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, name, description, tags, queue, priority, schedule,
                      target, policies, next_fire_at, created_at, updated_at)
    SELECT :cell, id, tenant_id, shard, kind, name, description, coalesce(string_to_array(tags, E'\x1f'), '{}'), queue, priority,
           schedule, target, policies, fire_at, created_at, created_at
    FROM given WHERE unique_name
    ON CONFLICT (cell, tenant_id, name)
        WHERE kind = 'recurring' AND name IS NOT NULL AND state IN ('active', 'paused') DO NOTHING
    RETURNING id
), refused AS (
    SELECT g.id FROM given g WHERE g.unique_name AND g.id NOT IN (SELECT n.id FROM named n)
), born AS (
    INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, start_by,
                            limit_key, route)
    SELECT :cell, id, fire_at, tenant_id, queue, priority, due_at, due_at, start_by, policies -> 'limit' ->> 'key',
           route_of(target)
    FROM given WHERE kind = 'once'
), noted AS (
    INSERT INTO audit (tenant_id, actor, action, object, after, request_id, address, via)
    SELECT g.tenant_id, g.actor, 'job.create', 'job:' || g.id,
           jsonb_build_object('kind', g.kind, 'name', g.name, 'queue', g.queue, 'schedule', g.schedule,
                              'target', jsonb_build_object('kind', g.target -> 'kind')),
           g.request_id, g.address, g.via
    FROM given g
    WHERE NOT :one_request AND g.actor IS NOT NULL AND g.id NOT IN (SELECT r.id FROM refused r)
), noted_together AS (
    INSERT INTO audit (tenant_id, actor, action, object, after, request_id, address, via)
    SELECT min(g.tenant_id), (:actors::text[])[1], 'job.create_batch', 'jobs',
           jsonb_build_object('created', count(*), 'jobs', jsonb_agg(g.id)), (:request_ids::text[])[1], (:addresses::text[])[1],
           (:vias::text[])[1]
    FROM given g
    WHERE :one_request AND (:actors::text[])[1] IS NOT NULL AND g.id NOT IN (SELECT r.id FROM refused r)
    HAVING count(*) > 0
)
SELECT id FROM refused
UNION ALL
SELECT NULL FROM (SELECT pg_notify('tocsin', :notice)) AS notice WHERE :notice IS NOT NULL
