-- Overlap, calendars, backfills, idempotent creation, search.

-- NULL is the common case, `allow`. Others take their turn through `solos` when they start.
ALTER TABLE executions
    ADD COLUMN overlap text CHECK (overlap IN ('skip', 'queue', 'collapse', 'replace')),
    ADD COLUMN origin_fire_at timestamptz,  -- of the execution that this one runs again
    ADD COLUMN backfill_id bigint;
ALTER TABLE history
    ADD COLUMN origin_fire_at timestamptz,
    ADD COLUMN backfill_id bigint;

-- Which execution of a job that must not overlap has the floor, from its first start to its end. A row whose
-- execution is no longer live is stale and may be taken over.
CREATE TABLE solos (
    cell    smallint NOT NULL,
    job_id  uuid NOT NULL,
    fire_at timestamptz NOT NULL,
    PRIMARY KEY (cell, job_id)
) WITH (fillfactor = 50);

CREATE TABLE calendars (
    tenant_id  integer NOT NULL REFERENCES tenants,
    name       text NOT NULL,
    ranges     jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, name)
);

CREATE TABLE backfills (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id    integer NOT NULL REFERENCES tenants,
    cell         smallint NOT NULL,
    job_id       uuid NOT NULL,
    shard        smallint NOT NULL,
    schedule     jsonb NOT NULL,  -- as it was: a later change of the job does not move what is backfilled
    range_from   timestamptz NOT NULL,
    range_to     timestamptz NOT NULL,
    mode         text NOT NULL CHECK (mode IN ('all', 'missing')),
    direction    text NOT NULL CHECK (direction IN ('oldest_first', 'newest_first')),
    pace         bigint NOT NULL DEFAULT 0,
    max_parallel integer NOT NULL CHECK (max_parallel BETWEEN 1 AND 10000),
    state        text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'completed', 'cancelled')),
    position     bigint NOT NULL DEFAULT 0,
    resume_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    planned      bigint NOT NULL DEFAULT 0,
    left_out     bigint NOT NULL DEFAULT 0,
    total        bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at  timestamptz
);
CREATE INDEX backfills_running ON backfills (shard) WHERE state = 'running';
CREATE INDEX backfills_of_job ON backfills (tenant_id, job_id, id);
CREATE INDEX executions_of_backfill ON executions (cell, backfill_id) WHERE backfill_id IS NOT NULL;
CREATE INDEX history_of_backfill ON history (cell, backfill_id) WHERE backfill_id IS NOT NULL;

ALTER TABLE idempotency ADD COLUMN job_id uuid NOT NULL;
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

CREATE INDEX jobs_tags ON jobs USING gin (tags) WHERE tags <> '{}';
CREATE INDEX jobs_paused_until ON jobs (shard, paused_until) WHERE paused_until IS NOT NULL;

-- Part of a name is found by trigrams. The extension is trusted, so an ordinary owner may create it; where an
-- operator forbids even that, the search still works, by scanning.
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE INDEX jobs_name_part ON jobs USING gin (lower(name) gin_trgm_ops) WHERE name IS NOT NULL;
EXCEPTION WHEN insufficient_privilege OR undefined_file OR feature_not_supported OR undefined_object THEN
    RAISE NOTICE 'pg_trgm is not available; search by part of a name will scan';
END $$;
