-- Limits by key: at most so many executions at once, at most so many starts per period, over the whole fleet.

-- The key of the job's limit; such executions pass a gate when they start.
ALTER TABLE executions
    ADD COLUMN cancel_reason text,  -- why it was asked to stop
    ADD COLUMN limit_key text,
    -- What the gate held it back for: its reserved place in a rate, a free slot, or its turn after an earlier one.
    ADD COLUMN waits_for text CHECK (waits_for IN ('rate', 'slot', 'turn'));
CREATE INDEX executions_limited ON executions (cell, tenant_id, limit_key, due_at)
    WHERE limit_key IS NOT NULL AND claim_token IS NULL;

-- One row per slot, so that workers lock different rows: a key with fifty slots has no row that everybody wants.
-- A slot is taken while it names an execution. It is given back when that attempt ends in any way; what a crash
-- leaves behind is found by comparing with the execution itself.
CREATE TABLE limit_slots (
    cell        smallint NOT NULL,
    tenant_id   integer NOT NULL,
    key         text NOT NULL,
    slot        smallint NOT NULL,
    job_id      uuid,
    fire_at     timestamptz,
    claim_token bigint,
    PRIMARY KEY (cell, tenant_id, key, slot)
) WITH (fillfactor = 50);
CREATE INDEX limit_slots_taken ON limit_slots (cell, job_id, fire_at) WHERE job_id IS NOT NULL;

-- When the next start of a key may be. Reserving a place moves it on; one update per key and batch.
CREATE TABLE limit_rates (
    cell      smallint NOT NULL,
    tenant_id integer NOT NULL,
    key       text NOT NULL,
    next_at   timestamptz NOT NULL,
    PRIMARY KEY (cell, tenant_id, key)
) WITH (fillfactor = 50);
