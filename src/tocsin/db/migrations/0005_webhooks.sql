-- Secrets that requests are signed with. A tenant's live ones are the newest and, while it is being replaced, the one
-- before. Sealed as the rows of `secrets` are, bound to tenant and version.
CREATE TABLE webhook_secrets (
    tenant_id  integer NOT NULL REFERENCES tenants,
    version    integer NOT NULL,
    key_id     text NOT NULL,
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,  -- set when the next one is made
    PRIMARY KEY (tenant_id, version)
);

-- A due execution may also wait because the host of its target fails and its worker gives the host a rest.
ALTER TABLE executions DROP CONSTRAINT executions_waits_for_check;
ALTER TABLE executions ADD CONSTRAINT executions_waits_for_check
    CHECK (waits_for IN ('rate', 'slot', 'turn', 'host')) NOT VALID;
