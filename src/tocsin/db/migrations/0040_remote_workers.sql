-- Remote workers: who they are, how far their tasks are, and what the tasks logged.
-- runs beside: 0020

-- A worker is live while it was heard of within three leases. `tasks` are the names of the functions that it has.
CREATE TABLE workers (
    id         bigint PRIMARY KEY,
    tenant_id  integer NOT NULL REFERENCES tenants,
    key_id     text NOT NULL,
    name       text NOT NULL,
    app        text,
    revision   text,
    sdk        text,
    queues     text[] NOT NULL,
    tasks      text[] NOT NULL,
    capacity   integer NOT NULL CHECK (capacity > 0),
    running    integer NOT NULL DEFAULT 0,
    state      text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining', 'gone')),
    lease      interval NOT NULL,
    started_at timestamptz NOT NULL DEFAULT tocsin_now(),
    seen_at    timestamptz NOT NULL DEFAULT tocsin_now()
) WITH (fillfactor = 50);
CREATE INDEX workers_of_tenant ON workers (tenant_id, id);

-- How far a running attempt says it is: {"share": 0.4, "note": "rendering"}.
ALTER TABLE executions ADD COLUMN progress jsonb;

-- A task may put its execution off.
ALTER TABLE executions DROP CONSTRAINT executions_waits_for_check;
ALTER TABLE executions ADD CONSTRAINT executions_waits_for_check
    CHECK (waits_for IN ('rate', 'slot', 'turn', 'host', 'version', 'descriptors', 'task')) NOT VALID;

-- What attempts logged. `total` is how many bytes the attempt has logged up to this line.
CREATE TABLE attempt_logs (
    cell      smallint NOT NULL,
    job_id    uuid NOT NULL,
    fire_at   timestamptz NOT NULL,
    attempt   smallint NOT NULL,
    seq       integer NOT NULL,
    at        timestamptz NOT NULL,
    tenant_id integer NOT NULL,
    level     text NOT NULL,
    message   text NOT NULL,
    fields    jsonb,
    total     integer NOT NULL,
    PRIMARY KEY (cell, job_id, fire_at, attempt, seq, at)
) PARTITION BY RANGE (at);
CREATE TABLE attempt_logs_default PARTITION OF attempt_logs DEFAULT;
SELECT make_day('attempt_logs', 'at', (tocsin_now() AT TIME ZONE 'UTC')::date + n) FROM generate_series(0, 7) AS n;
