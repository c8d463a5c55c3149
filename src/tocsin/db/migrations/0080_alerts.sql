-- Alerts: where to tell of trouble (channels), what counts as trouble (rules), and what is there at present.
-- runs beside: 0040

-- `settings` is a Channel as domain/alert_channel.py reads it. Credentials are names of secrets, never values.
CREATE TABLE alert_channels (
    tenant_id  integer NOT NULL REFERENCES tenants,
    name       text NOT NULL,
    settings   jsonb NOT NULL,
    version    integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT tocsin_now(),
    updated_at timestamptz NOT NULL DEFAULT tocsin_now(),
    PRIMARY KEY (tenant_id, name)
);

-- `settings` is a Rule as domain/alert_rule.py reads it. `beat_at` and `withheld` are of dead man's switches: the minute of the
-- latest beat, and why there is none at present.
CREATE TABLE alert_rules (
    tenant_id  integer NOT NULL REFERENCES tenants,
    name       text NOT NULL,
    settings   jsonb NOT NULL,
    version    integer NOT NULL DEFAULT 1,
    beat_at    timestamptz,
    withheld   text,
    created_at timestamptz NOT NULL DEFAULT tocsin_now(),
    updated_at timestamptz NOT NULL DEFAULT tocsin_now(),
    PRIMARY KEY (tenant_id, name)
);

-- What rules found, a row for each group of it. The scheduler with shard 0 writes them under its lease, and in the same
-- transaction the jobs that tell of them: so nothing is told twice, and nothing is forgotten. `told` is the state that was told
-- last. Rows that were resolved are kept for a week.
CREATE TABLE alerts (
    tenant_id   integer NOT NULL,
    rule        text NOT NULL,
    alert_group text NOT NULL,
    state       text NOT NULL CHECK (state IN ('pending', 'firing', 'resolved')),
    since       timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL,
    resolved_at timestamptz,
    told        text CHECK (told IN ('firing', 'resolved')),
    told_at     timestamptz,
    summary     text NOT NULL,
    detail      jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, rule, alert_group),
    FOREIGN KEY (tenant_id, rule) REFERENCES alert_rules ON DELETE CASCADE,
    CHECK ((state = 'resolved') = (resolved_at IS NOT NULL)),
    CHECK ((told IS NULL) = (told_at IS NULL))
) WITH (fillfactor = 50);
-- What a look has to read.
CREATE INDEX alerts_open ON alerts (tenant_id, rule) WHERE state <> 'resolved' OR told IS DISTINCT FROM 'resolved';
