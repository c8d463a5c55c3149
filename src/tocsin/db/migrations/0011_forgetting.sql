-- Jobs that are over are forgotten at the rate at which they end: with the day of their end, before its history goes.
-- runs beside: 0008

-- How far a day's partition of history has been walked. A row goes with its partition.
CREATE TABLE day_walks (
    partition text PRIMARY KEY,
    block     bigint NOT NULL,  -- the first that was not walked yet
    done      boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);

-- Many rows leave these every day. A fifth of them, the default, would be too much to leave lying about.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
ALTER TABLE idempotency SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 10000);
