-- How far an operation has come. Runs in the transaction that acts, with the operation locked.
-- Caller: Acting._write.
-- Locks: the operation's row, which is held already.
-- Index: operations_pkey.
-- Zero rows: it always returns none.
UPDATE operations
SET state = $2, state_reason = $3, position = $4, done = $5, succeeded = $6, failed = $7, step = $8, step_failed = $9,
    recent = $10, errors = $11, resume_at = $12, updated_at = tocsin_now(),
    finished_at = CASE WHEN $2 = 'completed' THEN tocsin_now() END
WHERE id = $1
