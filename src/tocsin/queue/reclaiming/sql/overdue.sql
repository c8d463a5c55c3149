-- Claims past their deadline, with what is needed to decide about them. Runs in the transaction that takes
-- them back.
-- Caller: Reclaiming.reclaim.
-- Locks: the rows, skipping those another reclaimer has.
-- Index: executions_deadline, from the low mark: dead entries below are not walked.
-- Zero rows: nothing is overdue, or other reclaimers have it.
SELECT e.job_id, e.fire_at, e.claim_token AS token, e.node_id, e.worker_id, e.started_at, e.attempt, e.earlier_attempts,
       e.deadline_at, e.cancel_requested, j.policies, j.version, e.overlap, e.limit_key, e.tenant_id, e.due_at
FROM executions e LEFT JOIN jobs j
    ON j.cell = ANY (ARRAY[e.cell]) AND j.tenant_id = ANY (ARRAY[e.tenant_id]) AND j.id = e.job_id
WHERE e.cell = :cell AND e.claim_token IS NOT NULL AND e.deadline_at >= :low_mark AND e.deadline_at <= tocsin_now()
ORDER BY e.deadline_at
LIMIT :limit
FOR UPDATE OF e SKIP LOCKED
