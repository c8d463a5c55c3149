-- Not a statement: a finished execution in the shape that live ones have too.
-- Caller: ExecutionListing._finished, ExecutionStore.of_job, ExecutionWatch._look, executions._get.
SELECT h.job_id, h.fire_at, h.tenant_id, h.queue, h.priority, h.cause, h.due_at, h.run_at, h.started_at,
       h.finished_at, h.attempt, h.attempts, h.outcome - 'result' AS outcome, h.reason, h.error_fingerprint, h.fire_until,
       h.fire_count, h.node_id, NULL::timestamptz AS deadline_at, false AS cancel_requested,
       NULL::timestamptz AS start_by, NULL::text AS overlap, NULL::text AS limit_key, NULL::text AS waits_for,
       h.waits, h.late_for, h.origin_fire_at, h.backfill_id,
       NULL::timestamptz AS missed_after, h.discarded_at,
       NULL::text AS route, h.worker_id, NULL::jsonb AS progress, h.outcome ? 'result' AS has_result, h.state
FROM history h
