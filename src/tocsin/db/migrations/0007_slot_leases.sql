-- Slots of limit keys are had by workers, for as long as they have use for them, instead of by executions: while a key has
-- room, nothing is written about slots when an execution starts or ends.

-- Under which number a node has its slots. It changes when the node is taken for dead; no number is used twice.
CREATE SEQUENCE slots_epochs;
ALTER TABLE nodes ADD COLUMN slots_epoch bigint NOT NULL DEFAULT nextval('slots_epochs');

-- One row per slot, so that workers lock different rows. It is free, or a node's under the epoch that this had.
CREATE TABLE slots (
    cell      smallint NOT NULL,
    tenant_id integer NOT NULL,
    key       text NOT NULL,
    slot      smallint NOT NULL,
    node_id   bigint,
    epoch     bigint,
    PRIMARY KEY (cell, tenant_id, key, slot),
    CHECK ((node_id IS NULL) = (epoch IS NULL))
) WITH (fillfactor = 50);

-- `limit_slots` is what workers of the version before count in; a later migration drops it.
