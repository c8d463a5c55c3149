-- Not a statement: the columns of a claim, in the order of the fields of `Claim`.
-- Caller: claim.sql, held.sql, recall.sql.
SELECT e.job_id, e.fire_at, e.tenant_id, e.queue, e.priority, e.route, e.due_at, e.run_at, e.start_by, e.deadline_at,
       e.started_at, e.attempt, e.earlier_attempts, e.overlap, e.limit_key, e.waits_for, e.origin_fire_at,
       e.missed_after, j.target, j.policies, j.version, e.claim_token AS token, e.has_turn
