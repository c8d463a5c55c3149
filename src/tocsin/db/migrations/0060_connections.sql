-- Connections: brokers under a name, which targets of jobs refer to.
-- runs beside: 0040

-- `settings` is a Connection as domain/connection.py reads it. Credentials are names of secrets, never values.
-- `version` grows with every change, so that workers know when to open a connection anew.
CREATE TABLE connections (
    tenant_id  integer NOT NULL REFERENCES tenants,
    name       text NOT NULL,
    kind       text NOT NULL,
    settings   jsonb NOT NULL,
    version    integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT tocsin_now(),
    updated_at timestamptz NOT NULL DEFAULT tocsin_now(),
    PRIMARY KEY (tenant_id, name)
);

-- Which jobs name a connection. Few do, and the rest of the jobs are not in it.
CREATE INDEX jobs_of_connection ON jobs (tenant_id, (target ->> 'connection')) WHERE target ->> 'connection' IS NOT NULL;
