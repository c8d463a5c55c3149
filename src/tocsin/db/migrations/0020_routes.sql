-- A lane has a route, which says who can run what waits there: the kind of the target, for a task with its name. Workers ask
-- only for the routes that they serve.
-- runs beside: 0020

-- The one rule; `route_of` in domain/target.py is the same.
CREATE FUNCTION route_of(target jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE target ->> 'kind' WHEN 'task' THEN 'task:' || (target ->> 'task') ELSE target ->> 'kind' END $$;

-- `worker_id`: the remote worker on whose behalf a node claimed the execution; NULL for what the node runs itself.
ALTER TABLE executions ADD COLUMN route text NOT NULL DEFAULT 'http', ADD COLUMN worker_id bigint;
ALTER TABLE history ADD COLUMN worker_id bigint;
ALTER TABLE nodes ADD COLUMN routes text[] NOT NULL DEFAULT '{}';
UPDATE executions e SET route = route_of(j.target)
FROM jobs j WHERE j.cell = e.cell AND j.id = e.job_id AND route_of(j.target) <> 'http';
ALTER TABLE executions ALTER COLUMN route DROP DEFAULT;

DROP INDEX executions_ready;
CREATE INDEX executions_ready ON executions (cell, queue, priority, tenant_id, route, run_at) WHERE claim_token IS NULL;

ALTER TABLE lanes ADD COLUMN route text NOT NULL DEFAULT 'http';
ALTER TABLE lanes DROP CONSTRAINT lanes_pkey, ADD PRIMARY KEY (cell, queue, priority, tenant_id, route);
ALTER TABLE lanes ALTER COLUMN route DROP DEFAULT;
INSERT INTO lanes (cell, queue, priority, tenant_id, route)
SELECT DISTINCT cell, queue, priority, tenant_id, route FROM executions
ON CONFLICT DO NOTHING;

-- Keeps the lanes of new executions, whatever program inserts them. A lane that exists is locked against being removed until
-- the executions are committed, and noted as used if that was not done lately; one that is missing is made. A lane that
-- another transaction makes at this moment needs no lock: it is not removed before it is an hour old.
CREATE OR REPLACE FUNCTION keep_lanes() RETURNS trigger LANGUAGE plpgsql SET search_path = tocsin AS $$
DECLARE
    missing boolean;
    least_used timestamptz;
BEGIN
    WITH entering AS MATERIALIZED (
        SELECT DISTINCT cell, queue, priority, tenant_id, route FROM entered
    ), kept AS MATERIALIZED (
        SELECT k.used_at
        FROM entering e CROSS JOIN LATERAL (
            SELECT l.used_at FROM lanes l
            WHERE l.cell = e.cell AND l.queue = e.queue AND l.priority = e.priority AND l.tenant_id = e.tenant_id
              AND l.route = e.route
            FOR KEY SHARE
        ) AS k
    )
    SELECT (SELECT count(*) FROM kept) < (SELECT count(*) FROM entering), (SELECT min(used_at) FROM kept)
    INTO missing, least_used;
    IF missing THEN
        INSERT INTO lanes (cell, queue, priority, tenant_id, route)
        SELECT DISTINCT cell, queue, priority, tenant_id, route FROM entered ORDER BY 1, 2, 3, 4, 5
        ON CONFLICT DO NOTHING;
    END IF;
    IF least_used < tocsin_now() - interval '20 minutes' THEN
        UPDATE lanes SET used_at = tocsin_now()
        WHERE ctid = ANY (ARRAY (
            SELECT l.ctid
            FROM (SELECT DISTINCT cell, queue, priority, tenant_id, route FROM entered) AS e
            JOIN lanes l USING (cell, queue, priority, tenant_id, route)
            FOR NO KEY UPDATE OF l SKIP LOCKED));
    END IF;
    RETURN NULL;
END $$;

-- How an execution ended, beside what its live row says: see db/sql/move_to_history.sql.
CREATE TYPE ending AS (
    state text, finished_at timestamptz, outcome jsonb, reason text, error_fingerprint text, job_version integer,
    fired_at timestamptz, settled boolean
);
CREATE FUNCTION never_started(state text, reason text) RETURNS ending LANGUAGE sql STABLE
AS $$ SELECT ROW (state, tocsin_now(), NULL, reason, NULL, NULL, NULL, false)::ending $$;
