-- When a recurring fire that has not started counts as missed: its instant and its job's grace. The job's misfire policy
-- then decides about it instead of a worker starting it. NULL for whatever cannot be missed: one-offs, runs by hand,
-- backfills, further attempts, and what waits because its own limit or overlap policy asks it to. No index has it, so
-- that starts stay heap-only updates. Processes of the version before write none, and start what they find late.
-- runs beside: 0008
ALTER TABLE executions ADD COLUMN missed_after timestamptz;
