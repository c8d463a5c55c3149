-- Take the executions of a tenant that is being suspended back from workers that claimed them ahead. Runs
-- inside the suspending transaction. A worker that asks to start one finds its token gone. run_at is brought
-- up to now at least, for the lanes' low marks.
-- Caller: TenantStore.set_state.
-- Locks: the rows, without waiting: one that is locked is being started, or settled, at this moment.
-- Index: executions_deadline, over all that is claimed.
-- Zero rows: nothing was claimed ahead.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, run_at = greatest(e.run_at, tocsin_now())
WHERE e.ctid = ANY (ARRAY (
    SELECT c.ctid FROM executions c
    WHERE c.cell = $1 AND c.deadline_at IS NOT NULL AND c.claim_token IS NOT NULL AND c.started_at IS NULL
      AND c.tenant_id = $2
    FOR UPDATE SKIP LOCKED))
