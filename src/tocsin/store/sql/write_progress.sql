-- How far an operation has come. Runs in the transaction that acts, with the operation locked.
-- Caller: Acting._write.
-- Locks: the operation's row, which is held already.
-- Index: operations_pkey.
-- Zero rows: it always returns none.
UPDATE operations
SET state = :state, state_reason = :state_reason, position = :position, done = :done, succeeded = :succeeded, failed = :failed, step = :step, step_failed = :step_failed,
    recent = :recent, errors = :errors, resume_at = :resume_at, updated_at = tocsin_now(),
    finished_at = CASE WHEN :state = 'completed' THEN tocsin_now() END
WHERE id = :id
