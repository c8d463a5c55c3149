-- Enqueueing in an application's own transaction: logins that are bound to a tenant, and the two functions that they may call.
-- runs beside: 0040

-- A login that is bound to a tenant acts for that tenant and for no other. It is known by `session_user`, which neither SET nor
-- SET ROLE changes.
CREATE TABLE tenant_logins (
    login      name PRIMARY KEY,
    tenant_id  integer NOT NULL REFERENCES tenants,
    created_at timestamptz NOT NULL DEFAULT tocsin_now()
);

-- What tenants with bound logins may still do. A scheduler counts every few seconds: a function that counted would read as many
-- rows as the limit has at each call. NULL is no limit.
CREATE TABLE login_limits (
    tenant_id     integer PRIMARY KEY REFERENCES tenants,
    pending_jobs  bigint,
    payload_bytes bigint,
    pending       bigint NOT NULL DEFAULT 0,
    counted_at    timestamptz NOT NULL DEFAULT tocsin_now()
) WITH (fillfactor = 50);

CREATE FUNCTION login_tenant() RETURNS integer LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = tocsin, pg_temp
AS $$ BEGIN RETURN (SELECT l.tenant_id FROM tenant_logins l WHERE l.login = session_user); END $$;

-- Whom the session acts for: a bound login for its tenant, whatever it sets; others for those that the setting names.
CREATE OR REPLACE FUNCTION acting_tenants() RETURNS integer[] LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN tocsin.login_tenant() IS NULL THEN string_to_array(current_setting('tocsin.tenants', true), ',')::integer[]
           ELSE ARRAY[tocsin.login_tenant()] END
$$;

-- Lanes that bound logins entered first. A transaction of an application may stay open for hours, and whoever inserts the same
-- key into `lanes` would wait for it: batches of the API, and planners. Rows here have no key. Looks read both tables, and
-- a scheduler moves these rows into `lanes` every few seconds.
CREATE TABLE lanes_entered (
    cell      smallint NOT NULL,
    queue     text NOT NULL,
    priority  smallint NOT NULL,
    tenant_id integer NOT NULL,
    route     text NOT NULL,
    made_in   xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX lanes_entered_made ON lanes_entered (cell, made_in);

-- As before, but for bound logins, and with pg_temp last in the search path: a login's own temporary table named `lanes` must
-- not be found first by a function that runs with the owner's rights.
CREATE OR REPLACE FUNCTION keep_lanes() RETURNS trigger LANGUAGE plpgsql SET search_path = tocsin, pg_temp AS $$
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
    IF missing AND login_tenant() IS NOT NULL THEN
        INSERT INTO lanes_entered (cell, queue, priority, tenant_id, route)
        SELECT DISTINCT cell, queue, priority, tenant_id, route FROM entered
        EXCEPT SELECT cell, queue, priority, tenant_id, route FROM lanes_entered
        WHERE cell IN (SELECT cell FROM entered) AND made_in = pg_current_xact_id();
    ELSIF missing THEN
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

-- The rules of `domain/`, for callers that do not come through the API. Everything here is refused with SQLSTATE 22023; DETAIL
-- names the field.
CREATE FUNCTION refuse(field text, problem text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = field || ': ' || problem, DETAIL = 'field: ' || field;
END $$;

-- A duration: seconds as a number, or text such as 1h30m.
CREATE FUNCTION span_of(written jsonb, field text, least_seconds numeric, most_seconds numeric) RETURNS interval
LANGUAGE plpgsql IMMUTABLE SET search_path = tocsin, pg_temp AS $$
DECLARE
    words CONSTANT text := written #>> '{}';
    seconds numeric;
BEGIN
    IF jsonb_typeof(written) = 'number' THEN
        seconds := words::numeric;
    ELSIF jsonb_typeof(written) = 'string' AND length(words) <= 64 AND words ~ '^ *([0-9]+(\.[0-9]+)? *(ms|s|m|h|d|w) *)+$' THEN
        SELECT sum(part[1]::numeric * CASE part[2] WHEN 'ms' THEN 0.001 WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600
                                      WHEN 'd' THEN 86400 ELSE 604800 END)
        INTO seconds FROM regexp_matches(words, '([0-9]+(?:\.[0-9]+)?) *(ms|s|m|h|d|w)', 'g') AS part;
    ELSE
        PERFORM refuse(field, 'a duration is a number of seconds, or text such as 90s, 5m, 1h30m or 2d');
    END IF;
    IF NOT seconds BETWEEN least_seconds AND most_seconds THEN
        PERFORM refuse(field, format('lies between %s and %s seconds', least_seconds, most_seconds));
    END IF;
    RETURN seconds::text::interval;
END $$;

CREATE FUNCTION check_number(written jsonb, field text, low numeric, high numeric, whole boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = tocsin, pg_temp AS $$
BEGIN
    IF written IS NULL THEN RETURN; END IF;
    IF jsonb_typeof(written) <> 'number' THEN
        PERFORM refuse(field, 'is a number');
    ELSIF NOT (written #>> '{}')::numeric BETWEEN low AND high OR whole AND scale((written #>> '{}')::numeric) > 0 THEN
        PERFORM refuse(field, format('%s between %s and %s', CASE WHEN whole THEN 'is a whole number' ELSE 'lies' END, low, high));
    END IF;
END $$;

CREATE FUNCTION check_fields(written jsonb, field text, known text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = tocsin, pg_temp AS $$
DECLARE
    unknown text;
BEGIN
    IF jsonb_typeof(written) <> 'object' THEN
        PERFORM refuse(field, 'is an object');
    END IF;
    SELECT min(k) INTO unknown FROM jsonb_object_keys(written) AS k WHERE k <> ALL (known);
    IF unknown IS NOT NULL THEN
        PERFORM refuse(field || '.' || left(unknown, 40), 'is not known here; known are ' || array_to_string(known, ', '));
    END IF;
END $$;

CREATE FUNCTION check_line(words text, field text, longest integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = tocsin, pg_temp AS $$
BEGIN
    IF words IS NULL OR NOT length(words) BETWEEN 1 AND longest THEN
        PERFORM refuse(field, format('has 1 to %s characters', longest));
    ELSIF words ~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]' THEN
        PERFORM refuse(field, 'has control characters or line breaks');
    END IF;
END $$;

CREATE FUNCTION check_task_policies(policies jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = tocsin, pg_temp AS $$
DECLARE
    retry CONSTANT jsonb := policies -> 'retry';
    bound CONSTANT jsonb := policies -> 'limit';
    a_month CONSTANT numeric := 2592000;
BEGIN
    PERFORM check_fields(policies, 'policies', ARRAY['retry', 'timeout', 'start_within', 'limit', 'precision']);
    IF retry IS NOT NULL THEN
        PERFORM check_fields(retry, 'policies.retry',
                             ARRAY['max_attempts', 'initial_backoff', 'max_backoff', 'multiplier', 'jitter']);
        PERFORM check_number(retry -> 'max_attempts', 'policies.retry.max_attempts', 1, 100, true);
        PERFORM check_number(retry -> 'multiplier', 'policies.retry.multiplier', 1, 100, false);
        PERFORM check_number(retry -> 'jitter', 'policies.retry.jitter', 0, 1, false);
        IF span_of(coalesce(retry -> 'initial_backoff', '"1s"'), 'policies.retry.initial_backoff', 0, a_month)
           > span_of(coalesce(retry -> 'max_backoff', '"5m"'), 'policies.retry.max_backoff', 0, a_month) THEN
            PERFORM refuse('policies.retry.initial_backoff', 'is longer than max_backoff');
        END IF;
    END IF;
    IF policies ? 'timeout' THEN
        PERFORM span_of(policies -> 'timeout', 'policies.timeout', 0.1, 86400);
    END IF;
    IF policies ? 'start_within' THEN
        PERFORM span_of(policies -> 'start_within', 'policies.start_within', 1, 3162240000);
    END IF;
    IF policies ->> 'precision' NOT IN ('normal', 'exact') OR jsonb_typeof(policies -> 'precision') <> 'string' THEN
        PERFORM refuse('policies.precision', 'is normal or exact');
    END IF;
    IF bound IS NOT NULL THEN
        PERFORM check_fields(bound, 'policies.limit', ARRAY['key', 'max_parallel', 'rate', 'per']);
        IF jsonb_typeof(bound -> 'key') IS DISTINCT FROM 'string' THEN
            PERFORM refuse('policies.limit.key', 'is text');
        END IF;
        PERFORM check_line(bound ->> 'key', 'policies.limit.key', 200);
        PERFORM check_number(bound -> 'max_parallel', 'policies.limit.max_parallel', 1, 1000, true);
        PERFORM check_number(bound -> 'rate', 'policies.limit.rate', 1, 1000000, true);
        IF NOT bound ? 'max_parallel' AND NOT bound ? 'rate' THEN
            PERFORM refuse('policies.limit', 'give max_parallel, rate, or both');
        END IF;
        PERFORM span_of(coalesce(bound -> 'per', '"1s"'), 'policies.limit.per', 1, 86400);
    END IF;
END $$;

CREATE FUNCTION check_payloads(payloads jsonb[], field text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = tocsin, pg_temp AS $$
DECLARE
    one record;
    name text;
BEGIN
    FOR one IN SELECT p.payload, p.payload::text AS words, p.place FROM unnest(payloads) WITH ORDINALITY AS p (payload, place)
    LOOP
        CONTINUE WHEN one.payload IS NULL OR octet_length(one.words) < 64;
        name := CASE WHEN field = 'payload' THEN field ELSE format('%s[%s]', field, one.place) END;
        IF octet_length(one.words) > 262144 THEN
            PERFORM refuse(name, 'the payload is larger than 256 KiB');
        ELSIF length(one.words) - length(translate(one.words, '{[', '')) > 64
              AND jsonb_path_exists(one.payload, 'strict $.**{65}') THEN
            PERFORM refuse(name, 'the payload is nested deeper than 64 levels');
        ELSIF one.words ~ '[0-9]{255}' AND jsonb_path_exists(one.payload,
                  'strict $.** ? (@.type() == "number" && (@ > 1.7e308 || @ < -1.7e308))') THEN
            PERFORM refuse(name, 'a number is larger than a double can hold');
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION check_task_call(
    task text, payloads jsonb[], field text, run_at timestamptz, queue text, priority integer, policies jsonb, tags text[],
    trace text
) RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = tocsin, pg_temp AS $$
DECLARE
    tag text;
BEGIN
    IF task IS NULL OR task !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$' THEN
        PERFORM refuse('task', 'a task has 1 to 128 of A-Z a-z 0-9 _ . : - and begins with a letter, a digit or _');
    ELSIF queue !~ '^[a-z0-9][a-z0-9._-]{0,62}$' THEN
        PERFORM refuse('queue', 'a queue name has 1 to 63 of a-z 0-9 . _ - and begins with a letter or digit');
    ELSIF NOT priority BETWEEN 0 AND 9 THEN
        PERFORM refuse('priority', 'lies between 0 (most urgent) and 9');
    ELSIF run_at < '0001-01-01 00:00:00+00' OR run_at >= '10000-01-01 00:00:00+00' THEN
        PERFORM refuse('run_at', 'lies outside the years 1 to 9999 in UTC');
    ELSIF trace !~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM refuse('trace', 'is a traceparent such as 00-<32 hex>-<16 hex>-01');
    ELSIF cardinality(tags) > 32 OR (SELECT count(*) > count(DISTINCT t) FROM unnest(tags) AS t) THEN
        PERFORM refuse('tags', 'at most 32 tags, each given once');
    END IF;
    FOREACH tag IN ARRAY tags LOOP
        PERFORM check_line(tag, 'tags', 64);
        IF position(',' IN tag) > 0 THEN
            PERFORM refuse('tags', 'a tag has no comma: it separates tags in a search');
        END IF;
    END LOOP;
    IF policies <> '{}' THEN
        PERFORM check_task_policies(policies);
    END IF;
    PERFORM check_payloads(payloads, field);
END $$;

-- Ids as `domain/ids.py` makes them: the milliseconds, then what is random.
CREATE FUNCTION new_job_ids(number integer) RETURNS uuid[] LANGUAGE sql VOLATILE SET search_path = tocsin, pg_temp AS $$
    SELECT array_agg(overlay(replace(gen_random_uuid()::text, '-', '')
                             PLACING lpad(to_hex(floor(date_part('epoch', tocsin_now()) * 1000)::bigint), 12, '0') || '7'
                             FROM 1 FOR 13)::uuid)
    FROM generate_series(1, number)
$$;

CREATE FUNCTION check_job_ids(ids uuid[], number integer, field text) RETURNS void
LANGUAGE plpgsql SET search_path = tocsin, pg_temp AS $$
BEGIN
    IF cardinality(ids) <> number OR array_position(ids, NULL) IS NOT NULL THEN
        PERFORM refuse(field, 'there is one id for each payload');
    ELSIF EXISTS (SELECT FROM unnest(ids) AS i WHERE i::text !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]') THEN
        PERFORM refuse(field, 'a job''s id is a UUID of version 7');
    ELSIF EXISTS (
        SELECT FROM unnest(ids) AS i
        WHERE abs(('x' || lpad(left(replace(i::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0
                  - date_part('epoch', tocsin_now())) > 86400) THEN
        PERFORM refuse(field, 'the time in a job''s id is more than a day away from the database''s clock');
    END IF;
END $$;

-- How many more jobs a tenant may have. `tocsin.entered` is what this transaction has added since the count.
CREATE FUNCTION check_room(tenant integer, payloads jsonb[], field text) RETURNS void
LANGUAGE plpgsql SET search_path = tocsin, pg_temp AS $$
DECLARE
    bound login_limits;
    entered bigint := cardinality(payloads);
    said CONSTANT text := current_setting('tocsin.entered', true);
BEGIN
    SELECT * INTO bound FROM login_limits l WHERE l.tenant_id = tenant;
    IF bound.pending_jobs IS NOT NULL THEN
        entered := entered + CASE WHEN said ~ '^[0-9]{1,9}$' THEN said::bigint ELSE 0 END;
        IF bound.pending + entered > bound.pending_jobs THEN
            RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded',
                MESSAGE = format('the tenant may have %s pending jobs, and has %s (limit pending_jobs)', bound.pending_jobs,
                                 bound.pending + entered - cardinality(payloads)),
                HINT = 'wait until some are done, cancel some, or ask the operator for more';
        END IF;
        PERFORM set_config('tocsin.entered', entered::text, true);
    END IF;
    IF EXISTS (SELECT FROM unnest(payloads) AS p WHERE octet_length(p::text) > bound.payload_bytes) THEN
        RAISE EXCEPTION USING ERRCODE = 'configuration_limit_exceeded', DETAIL = 'field: ' || field,
            MESSAGE = format('%s: a payload has more than %s bytes (limit payload_bytes)', field, bound.payload_bytes);
    END IF;
END $$;

-- Writes jobs with one execution each, as `define_jobs.sql` does for the API, for the tenant of the login.
CREATE FUNCTION enter_tasks(
    the_task text, payloads jsonb[], field text, wanted timestamptz, the_queue text, the_priority integer, the_policies jsonb,
    the_tags text[], trace text, ids uuid[], notify boolean
) RETURNS uuid[] LANGUAGE plpgsql SET search_path = tocsin, pg_temp AS $$
DECLARE
    number CONSTANT integer := cardinality(payloads);
    started CONSTANT timestamptz := tocsin_now();
    fire timestamptz := coalesce(wanted, started);
    due timestamptz := greatest(fire, started);
    rules CONSTANT jsonb := jsonb_strip_nulls(coalesce(the_policies, '{}'));
    tenant tenants;
    said jsonb;
BEGIN
    SELECT t.* INTO tenant FROM tenant_logins l JOIN tenants t ON t.id = l.tenant_id WHERE l.login = session_user;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = format('the login %s is not bound to a tenant', session_user),
            HINT = format('an operator binds it: tocsin tenants bind-login TENANT --login %s', session_user);
    ELSIF tenant.state <> 'active' THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('the tenant %s is suspended', tenant.name);
    END IF;
    PERFORM check_task_call(the_task, payloads, field, wanted, the_queue, the_priority, rules, the_tags, trace);
    PERFORM check_room(tenant.id, payloads, field);
    said := jsonb_build_object('at', replace(
        to_char(fire AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '.000000Z', 'Z'));

    INSERT INTO jobs (cell, id, tenant_id, shard, kind, tags, queue, priority, schedule, target, policies, created_at, updated_at)
    SELECT 0, g.id, tenant.id,
           ('x' || right(replace(g.id::text, '-', ''), 8))::bit(32)::bigint % i.shard_count, 'once', the_tags, the_queue,
           the_priority, said,
           jsonb_build_object('kind', 'task', 'task', the_task)
               || CASE WHEN g.payload IS NULL OR g.payload = 'null' THEN '{}' ELSE jsonb_build_object('payload', g.payload) END
               || CASE WHEN trace IS NULL THEN '{}' ELSE jsonb_build_object('trace', trace) END,
           rules, started, started
    FROM unnest(ids, payloads) AS g (id, payload), installation i;

    INSERT INTO executions (cell, job_id, fire_at, tenant_id, queue, priority, due_at, run_at, start_by, limit_key, route)
    SELECT 0, id, fire, tenant.id, the_queue, the_priority, due, due,
           CASE WHEN rules ? 'start_within' THEN due + span_of(rules -> 'start_within', 'start_within', 1, 3162240000) END,
           rules -> 'limit' ->> 'key', 'task:' || the_task
    FROM unnest(ids) AS id;

    INSERT INTO audit (tenant_id, actor, action, object, after)
    SELECT tenant.id, 'login:' || session_user, CASE number WHEN 1 THEN 'job.create' ELSE 'job.create_batch' END,
           CASE number WHEN 1 THEN 'job:' || ids[1] ELSE 'jobs' END,
           CASE number WHEN 1
               THEN jsonb_build_object('kind', 'once', 'name', NULL, 'queue', the_queue, 'schedule', said,
                                       'target', jsonb_build_object('kind', 'task'))
               ELSE jsonb_build_object('created', number, 'jobs', to_jsonb(ids)) END;

    -- The notice says how far down workers have to look: what this transaction wrote may run before everything that they
    -- have seen when it commits. Equal for all calls of a transaction, so that it is sent once for each lane.
    IF notify AND due <= started + interval '1 hour' THEN
        PERFORM pg_notify('tocsin', format('entered:%s:%s:%s:%s:%s ready',
            floor(date_part('epoch', least(transaction_timestamp(), due)) * 1000000)::bigint,
            tenant.id, the_priority, the_queue, 'task:' || the_task));
    END IF;
    RETURN ids;
END $$;

-- What applications call. One job; its id is returned.
CREATE FUNCTION enqueue(
    task text, payload jsonb DEFAULT NULL, run_at timestamptz DEFAULT NULL, queue text DEFAULT 'default',
    priority integer DEFAULT 5, policies jsonb DEFAULT '{}', tags text[] DEFAULT '{}', trace text DEFAULT NULL,
    job_id uuid DEFAULT NULL, notify boolean DEFAULT true
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = tocsin, pg_temp AS $$
BEGIN
    IF job_id IS NOT NULL THEN
        PERFORM check_job_ids(ARRAY[job_id], 1, 'job_id');
    END IF;
    RETURN (enter_tasks(task, ARRAY[payload], 'payload', run_at, coalesce(queue, 'default'), coalesce(priority, 5), policies,
                        coalesce(tags, '{}'), trace, CASE WHEN job_id IS NULL THEN new_job_ids(1) ELSE ARRAY[job_id] END,
                        coalesce(notify, true)))[1];
END $$;

-- A job for each payload, up to 10,000; their ids are returned in the same order.
CREATE FUNCTION enqueue_many(
    task text, payloads jsonb[], run_at timestamptz DEFAULT NULL, queue text DEFAULT 'default',
    priority integer DEFAULT 5, policies jsonb DEFAULT '{}', tags text[] DEFAULT '{}', trace text DEFAULT NULL,
    job_ids uuid[] DEFAULT NULL, notify boolean DEFAULT true
) RETURNS uuid[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = tocsin, pg_temp AS $$
BEGIN
    IF cardinality(coalesce(payloads, '{}')) = 0 THEN
        RETURN '{}';
    ELSIF cardinality(payloads) > 10000 OR array_ndims(payloads) > 1 THEN
        PERFORM refuse('payloads', 'is a list of at most 10,000 payloads');
    ELSIF job_ids IS NOT NULL THEN
        PERFORM check_job_ids(job_ids, cardinality(payloads), 'job_ids');
    END IF;
    RETURN enter_tasks(task, payloads, 'payloads', run_at, coalesce(queue, 'default'), coalesce(priority, 5), policies,
                       coalesce(tags, '{}'), trace, coalesce(job_ids, new_job_ids(cardinality(payloads))), coalesce(notify, true));
END $$;

REVOKE ALL ON FUNCTION enqueue, enqueue_many, enter_tasks, check_room FROM PUBLIC;
