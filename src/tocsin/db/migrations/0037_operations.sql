-- Operations: one action on many things, a batch at a time, by whichever scheduler comes first.
-- runs beside: 0008

-- `position` is how many of the matched have been acted on. It moves in the transaction that acts, so that a crash at any point
-- repeats nothing and leaves nothing out. No constraint names the actions: a version that does not know one leaves it to others.
CREATE TABLE operations (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id    integer NOT NULL REFERENCES tenants,
    action       text NOT NULL,
    things       text NOT NULL,
    filter       jsonb,  -- as it was asked for; NULL if the things were named one by one
    reason       text,
    pace         bigint NOT NULL DEFAULT 0,
    steps        integer[] NOT NULL DEFAULT '{}',
    stop_share   float8,
    stop_of      integer,
    state        text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'completed', 'cancelled')),
    state_reason text,
    matched      bigint NOT NULL DEFAULT 0,
    position     bigint NOT NULL DEFAULT 0,
    done         bigint NOT NULL DEFAULT 0,
    succeeded    bigint NOT NULL DEFAULT 0,  -- of executions that it fired
    failed       bigint NOT NULL DEFAULT 0,
    step         integer NOT NULL DEFAULT 0,
    step_failed  bigint NOT NULL DEFAULT 0,
    recent       text NOT NULL DEFAULT '',   -- the latest outcomes, for the brake: a letter each
    errors       jsonb NOT NULL DEFAULT '{}',
    resume_at    timestamptz NOT NULL,
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT tocsin_now(),
    updated_at   timestamptz NOT NULL DEFAULT tocsin_now(),
    finished_at  timestamptz,
    CHECK (position BETWEEN 0 AND matched AND done <= position),
    CHECK ((stop_share IS NULL) = (stop_of IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX operations_running ON operations (resume_at) WHERE state = 'running';
CREATE INDEX operations_of_tenant ON operations (tenant_id, id);
CREATE INDEX operations_changed ON operations (tenant_id, updated_at);

-- What an operation acts on, fixed when it was created, in batches. They go when it ends.
CREATE TABLE operation_batches (
    operation_id bigint NOT NULL REFERENCES operations ON DELETE CASCADE,
    number       integer NOT NULL,
    tenant_id    integer NOT NULL REFERENCES tenants,
    job_ids      uuid[] NOT NULL,
    fire_ats     timestamptz[] NOT NULL,
    PRIMARY KEY (operation_id, number)
);

-- Executions that an operation fired and whose end it waits for.
CREATE TABLE operation_runs (
    operation_id bigint NOT NULL REFERENCES operations ON DELETE CASCADE,
    tenant_id    integer NOT NULL REFERENCES tenants,
    job_id       uuid NOT NULL,
    fire_at      timestamptz NOT NULL,
    PRIMARY KEY (operation_id, job_id, fire_at)
);
