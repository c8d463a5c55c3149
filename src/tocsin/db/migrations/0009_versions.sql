-- Nodes of several versions on one schema.
-- runs beside: 0008

-- A due execution may also wait for a worker that can read what its job says.
ALTER TABLE executions DROP CONSTRAINT executions_waits_for_check;
ALTER TABLE executions ADD CONSTRAINT executions_waits_for_check
    CHECK (waits_for IN ('rate', 'slot', 'turn', 'host', 'version')) NOT VALID;

-- The newest migration that a node's build knows. NULL: a build from before this one.
ALTER TABLE nodes ADD COLUMN schema integer;
