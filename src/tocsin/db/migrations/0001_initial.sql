-- The first schema. Words are those of docs/concepts.md; `cell` leads every key of the hot tables so that the
-- same statements work where the tables are distributed over machines. Everything owned by a tenant names it.

-- The one clock. Every deadline and lease is judged by it, never by a node's own clock. It is inlined by the
-- planner; tests that run on virtual time replace its body.
CREATE FUNCTION tocsin_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT clock_timestamp() $$;

-- Constants chosen when the database is initialised; changing them later would move every job.
CREATE TABLE installation (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    shard_count smallint NOT NULL CHECK (shard_count BETWEEN 1 AND 4096),
    cell_count  smallint NOT NULL CHECK (cell_count BETWEEN 1 AND 1024),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO installation (shard_count, cell_count) VALUES (64, 1);

CREATE TABLE tenants (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    state       text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended')),
    weight      smallint NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    limits      jsonb NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO tenants (name) VALUES ('default');

CREATE TABLE api_keys (
    id           text PRIMARY KEY,
    tenant_id    integer NOT NULL REFERENCES tenants,
    name         text NOT NULL,
    secret_hash  bytea NOT NULL,
    scopes       text[] NOT NULL CHECK (scopes <@ ARRAY['read', 'write', 'worker', 'admin']),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);

-- What users defined. A recurring job is a cursor: next_fire_at is the first fire time not yet planned.
CREATE TABLE jobs (
    cell         smallint NOT NULL,
    id           uuid NOT NULL,
    tenant_id    integer NOT NULL REFERENCES tenants,
    shard        smallint NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('once', 'recurring')),
    name         text,
    description  text,
    tags         text[] NOT NULL DEFAULT '{}',
    queue        text NOT NULL,
    priority     smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
    schedule     jsonb NOT NULL,
    target       jsonb NOT NULL,
    policies     jsonb NOT NULL,
    state        text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'completed', 'cancelled')),
    state_reason text,
    paused_until timestamptz,
    next_fire_at timestamptz,
    fire_count   bigint NOT NULL DEFAULT 0,
    version      integer NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (cell, id)
) WITH (fillfactor = 90);
CREATE INDEX jobs_to_plan ON jobs (cell, shard, next_fire_at) WHERE state = 'active' AND kind = 'recurring';
-- A name is taken while its job can still fire; a cancelled or completed job gives it free.
CREATE UNIQUE INDEX jobs_name ON jobs (cell, tenant_id, name)
    WHERE kind = 'recurring' AND name IS NOT NULL AND state IN ('active', 'paused');
CREATE INDEX jobs_of_tenant ON jobs (tenant_id, id);

-- Live executions only: one row from planning until its end. A row without a claim token is queued; with a
-- token it is claimed; with a start time it is running. `start` sets started_at alone, a column that no index
-- mentions, so that it stays a heap-only update.
CREATE TABLE executions (
    cell             smallint NOT NULL,
    job_id           uuid NOT NULL,
    fire_at          timestamptz NOT NULL,
    tenant_id        integer NOT NULL,
    queue            text NOT NULL,
    priority         smallint NOT NULL,
    due_at           timestamptz NOT NULL,  -- when it should first run: what lag is measured from
    run_at           timestamptz NOT NULL,  -- when it may next run: moved by retries
    start_by         timestamptz,
    claim_token      bigint,
    node_id          bigint,
    deadline_at      timestamptz,
    started_at       timestamptz,
    attempt          smallint NOT NULL DEFAULT 1,
    earlier_attempts smallint NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    cause            text NOT NULL DEFAULT 'schedule'
                     CHECK (cause IN ('schedule', 'catch_up', 'manual', 'backfill', 'rerun')),
    attempts         jsonb,
    PRIMARY KEY (cell, job_id, fire_at),
    CHECK ((claim_token IS NULL) = (node_id IS NULL)),
    CHECK ((claim_token IS NULL) = (deadline_at IS NULL)),
    CHECK (started_at IS NULL OR claim_token IS NOT NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2);
CREATE INDEX executions_ready ON executions (cell, queue, priority, tenant_id, run_at) WHERE claim_token IS NULL;
CREATE INDEX executions_deadline ON executions (cell, deadline_at) WHERE claim_token IS NOT NULL;

-- Which (queue, priority, tenant) combinations exist at all, so that a claim probes each lane by index and
-- nobody has to search the big table for distinct values. Rows are added with the first execution of a lane.
CREATE TABLE lanes (
    cell      smallint NOT NULL,
    queue     text NOT NULL,
    priority  smallint NOT NULL,
    tenant_id integer NOT NULL,
    PRIMARY KEY (cell, queue, priority, tenant_id)
);

-- Everything that is over, one row per execution (or per run of equal skips), append-only.
CREATE TABLE history (
    cell              smallint NOT NULL,
    job_id            uuid NOT NULL,
    fire_at           timestamptz NOT NULL,
    tenant_id         integer NOT NULL,
    queue             text NOT NULL,
    priority          smallint NOT NULL,
    cause             text NOT NULL,
    state             text NOT NULL CHECK (state IN ('succeeded', 'dead', 'cancelled', 'skipped', 'expired')),
    due_at            timestamptz NOT NULL,
    run_at            timestamptz NOT NULL,
    started_at        timestamptz,
    finished_at       timestamptz NOT NULL,
    attempt           smallint NOT NULL,
    attempts          jsonb,
    outcome           jsonb,
    reason            text,
    error_fingerprint text,
    fire_until        timestamptz,
    fire_count        integer NOT NULL DEFAULT 1,
    claim_token       bigint,
    node_id           bigint,
    job_version       integer
) PARTITION BY RANGE (finished_at);
CREATE INDEX history_of_job ON history (cell, job_id, fire_at);
CREATE INDEX history_of_tenant ON history (tenant_id, finished_at);
CREATE INDEX history_dead ON history (tenant_id, finished_at) WHERE state = 'dead';
-- A settle must never fail for want of a partition; this one is normally empty.
CREATE TABLE history_default PARTITION OF history DEFAULT;

CREATE TABLE shards (
    shard      smallint PRIMARY KEY,
    owner      bigint,
    epoch      bigint NOT NULL DEFAULT 0,
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
INSERT INTO shards (shard) SELECT generate_series(0, shard_count - 1) FROM installation;

CREATE SEQUENCE node_ids;
CREATE TABLE nodes (
    id         bigint PRIMARY KEY DEFAULT nextval('node_ids'),
    name       text NOT NULL,
    roles      text[] NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    stats      jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

CREATE TABLE queues (
    tenant_id integer NOT NULL REFERENCES tenants,
    name      text NOT NULL,
    paused_at timestamptz,
    reason    text,
    limits    jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, name)
);

CREATE TABLE idempotency (
    tenant_id    integer NOT NULL REFERENCES tenants,
    key          text NOT NULL,
    request_hash bytea NOT NULL,
    answer       jsonb,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key)
);

CREATE TABLE secrets (
    tenant_id  integer NOT NULL REFERENCES tenants,
    name       text NOT NULL,
    key_id     text NOT NULL,
    sealed     bytea NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, name)
);

CREATE TABLE audit (
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    tenant_id  integer,
    actor      text NOT NULL,
    action     text NOT NULL,
    object     text NOT NULL,
    before     jsonb,
    after      jsonb,
    request_id text,
    address    text
) PARTITION BY RANGE (at);
CREATE INDEX audit_of_tenant ON audit (tenant_id, at);
CREATE TABLE audit_default PARTITION OF audit DEFAULT;

-- Make one partition per day, `days` of them from `first`. Attaching a ready-made table locks readers and
-- writers of the parent for no longer than a catalogue update.
CREATE FUNCTION make_daily_partitions(parent text, first date, days integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    made integer := 0;
    partition text;
    day date;
BEGIN
    FOR day IN SELECT first + n FROM generate_series(0, days - 1) AS n LOOP
        partition := parent || '_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(partition) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', partition, parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, partition,
                       day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Drop whole days that ended before `horizon`. Returns how many went.
CREATE FUNCTION drop_daily_partitions(parent text, horizon date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    dropped integer := 0;
    partition record;
BEGIN
    FOR partition IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass AND c.relname ~ ('^' || parent || '_\d{8}$')
          AND to_date(right(c.relname, 8), 'YYYYMMDD') < horizon
    LOOP
        EXECUTE format('DROP TABLE %I', partition.relname);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;
