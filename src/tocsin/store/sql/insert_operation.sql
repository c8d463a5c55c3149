-- Begin an operation on many things.
-- Caller: operations._insert.
-- Locks: the new row.
-- Index: none. It only adds.
-- Zero rows: never; it returns the id.
INSERT INTO operations (tenant_id, action, things, filter, reason, pace, steps, stop_share, stop_of, resume_at, created_by)
VALUES (:tenant_id, :action, :things, :filter, :reason, :pace, :steps, :stop_share, :stop_of, :resume_at, :created_by)
RETURNING id
