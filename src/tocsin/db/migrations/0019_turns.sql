-- The right of one execution of a job to run, where executions of the job must not overlap, is called the job's turn.
-- runs beside: 0019
ALTER TABLE executions RENAME COLUMN has_floor TO has_turn;        -- from its first start to its end
ALTER TABLE executions RENAME COLUMN floor_awaited TO turn_awaited;  -- others of its job may wait for their turn
ALTER TABLE executions RENAME CONSTRAINT executions_floor_check TO executions_turn_check;
ALTER INDEX executions_floor RENAME TO executions_turn;
-- Builds that wrote it are not admitted any more.
DROP TABLE solos;
