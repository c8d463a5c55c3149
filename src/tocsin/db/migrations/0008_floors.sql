-- The floor of a job that must not overlap is a mark on the execution that has it, instead of a row of its own: it comes with
-- the claim, goes with the execution, and nothing more is written for it.
ALTER TABLE executions
    ADD COLUMN has_floor boolean NOT NULL DEFAULT false,      -- from its first start to its end
    ADD COLUMN floor_awaited boolean NOT NULL DEFAULT false;  -- others of its job may wait for their turn
UPDATE executions e SET has_floor = true, floor_awaited = true
FROM solos s WHERE s.cell = e.cell AND s.job_id = e.job_id AND s.fire_at = e.fire_at;
-- What must not overlap runs only with the floor, and there is one of each job. Workers of the version before, which know
-- nothing of it, start no such executions any more.
ALTER TABLE executions ADD CONSTRAINT executions_floor_check CHECK (started_at IS NULL OR overlap IS NULL OR has_floor);
CREATE UNIQUE INDEX executions_floor ON executions (cell, job_id) WHERE has_floor;
-- `solos` is what workers of the version before write their floors in; a later migration drops it.

-- Jobs about which a worker decides right now. No row outlives the transaction that wrote it, so nothing is lost with them.
CREATE UNLOGGED TABLE deciding (
    cell   smallint NOT NULL,
    job_id uuid NOT NULL,
    PRIMARY KEY (cell, job_id)
);
