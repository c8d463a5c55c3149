-- Insert jobs, and for one-offs their execution, in one statement. Called by JobStore.define with everything
-- that arrived during the previous commit. Returns the ids that were refused because the name is taken; a
-- one-off has no unique name and cannot be. A last row without id carries the wake-up for workers.
-- The tenants of the batch ($18) are whom this transaction acts for: no row of `given` exists before that is set, so
-- the policies of what is inserted from it see it. Creations with an actor are noted in the audit log.
WITH given AS (
    SELECT g.* FROM (SELECT set_config('tocsin.tenants', $18, true)) AS acting,
                  unnest($2::uuid[], $3::integer[], $4::smallint[], $5::text[], $6::text[], $7::text[],
                         $8::text[], $9::text[], $10::smallint[], $11::jsonb[], $12::jsonb[], $13::jsonb[],
                         $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $19::text[], $20::text[],
                         $21::text[], $22::timestamptz[])
        AS g (id, tenant_id, shard, kind, name, description, tags, queue, priority, schedule, target, policies,
              fire_at, due_at, start_by, actor, request_id, address, created_at)
), defined AS (
    INSERT INTO jobs (cell, id, tenant_id, shard, kind, name, description, tags, queue, priority, schedule,
                      target, policies, next_fire_at, created_at, updated_at)
    SELECT $1, id, tenant_id, shard, kind, name, description, string_to_array(tags, E'\x1f'), queue, priority,
           schedule, target, policies, CASE WHEN kind = 'recurring' THEN fire_at END, created_at, created_at
    FROM given
    ON CONFLICT (cell, tenant_id, name)
        WHERE kind = 'recurring' AND name IS NOT NULL AND state IN ('active', 'paused') DO NOTHING
    RETURNING id
), lane AS (
    INSERT INTO lanes (cell, queue, priority, tenant_id)
    SELECT DISTINCT $1::smallint, queue, priority, tenant_id FROM given ORDER BY 1, 2, 3, 4
    ON CONFLICT DO NOTHING
), born AS (
    INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, start_by,
                            limit_key)
    SELECT $1, id, fire_at, tenant_id, queue, priority, due_at, due_at, start_by, policies -> 'limit' ->> 'key'
    FROM given WHERE kind = 'once'
), noted AS (
    INSERT INTO audit (tenant_id, actor, action, object, after, request_id, address)
    SELECT g.tenant_id, g.actor, 'job.create', 'job:' || g.id,
           jsonb_build_object('kind', g.kind, 'name', g.name, 'queue', g.queue, 'schedule', g.schedule,
                              'target', jsonb_build_object('kind', g.target -> 'kind')),
           g.request_id, g.address
    FROM given g
    WHERE g.actor IS NOT NULL AND (g.kind = 'once' OR g.id IN (SELECT d.id FROM defined d))
)
SELECT g.id FROM given g LEFT JOIN defined d USING (id) WHERE d.id IS NULL
UNION ALL
SELECT NULL FROM (SELECT pg_notify('tocsin', $17)) AS notice WHERE $17 IS NOT NULL
