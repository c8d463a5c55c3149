-- Nodes of several versions on one schema.

-- A due execution may also wait for a worker that can read what its job says.
ALTER TABLE executions DROP CONSTRAINT executions_waits_for_check;
ALTER TABLE executions ADD CONSTRAINT executions_waits_for_check
    CHECK (waits_for IN ('rate', 'slot', 'turn', 'host', 'version')) NOT VALID;
