-- Not a statement: a live execution in the shape that history has too.
-- Caller: ExecutionListing._live, ExecutionStore.of_job, ExecutionWatch._look, executions._get,
-- execution_listing._parts, execution_listing.select_executions.
SELECT e.job_id, e.fire_at, e.tenant_id, e.queue, e.priority, e.cause, e.due_at, e.run_at, e.started_at,
       NULL::timestamptz AS finished_at, e.attempt, e.attempts, NULL::jsonb AS outcome, NULL::text AS reason,
       NULL::text AS error_fingerprint, NULL::timestamptz AS fire_until, 1 AS fire_count, e.node_id,
       e.deadline_at, e.cancel_requested, e.start_by, e.overlap, e.limit_key, e.waits_for,
       e.waits, e.late_for, e.origin_fire_at, e.backfill_id, e.missed_after, NULL::timestamptz AS discarded_at,
       e.route, e.worker_id, e.progress, false AS has_result,
       CASE WHEN e.claim_token IS NULL THEN 'queued' WHEN e.started_at IS NULL THEN 'claimed' ELSE 'running' END
           AS state
FROM executions e
