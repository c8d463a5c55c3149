-- Jobs with fires that were missed before $4 and are still in the queue, within blocks $2 to $3 of the table:
-- their queue is paused, or no worker serves them, so no worker asks for their misfire policy.
-- Caller: ForgettingStore.sweep.
-- Locks: nothing. MisfireStore.drop locks the jobs and looks again.
-- Index: none. Blocks are read by their number.
-- Zero rows: there was none.
SELECT DISTINCT e.tenant_id, e.job_id
FROM executions e
WHERE e.ctid >= format('(%s,0)', $2::bigint)::tid AND e.ctid < format('(%s,0)', $3::bigint)::tid
  AND e.cell = $1 AND e.claim_token IS NULL AND e.started_at IS NULL AND e.attempt = 1 AND e.missed_after < $4
