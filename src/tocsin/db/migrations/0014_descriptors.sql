-- An execution may also wait until a worker has file descriptors again.
-- runs beside: 0008
ALTER TABLE executions DROP CONSTRAINT executions_waits_for_check;
ALTER TABLE executions ADD CONSTRAINT executions_waits_for_check
    CHECK (waits_for IN ('rate', 'slot', 'turn', 'host', 'version', 'descriptors')) NOT VALID;
