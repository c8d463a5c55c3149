-- Jobs that a program or a file declares: who owns them, and which revision of the owner was declared last.
-- runs beside: 0040

ALTER TABLE jobs ADD COLUMN managed_by text;

-- The jobs of an owner, ended ones too: what is declared again goes on with its history. Few jobs have an owner.
CREATE INDEX jobs_of_owner ON jobs (cell, tenant_id, managed_by, name) WHERE managed_by IS NOT NULL;

-- `round` grows with every declaration that is accepted. Each change that a declaration makes proves it in its own transaction:
-- once a newer declaration was accepted, an older one that is still under way writes nothing any more.
CREATE TABLE declarations (
    tenant_id   integer NOT NULL REFERENCES tenants,
    owner       text NOT NULL,
    revision    bigint,
    round       bigint NOT NULL DEFAULT 1,
    declared_at timestamptz NOT NULL DEFAULT tocsin_now(),
    PRIMARY KEY (tenant_id, owner)
);
