-- What is held under the tokens of claims whose answer was lost ($2). Called by PostgresQueue.recall.
-- What passed its deadline may be another worker's by now, and is left to the reclaimer.
-- Locks nothing. Index: executions_deadline, all claims that are not overdue: not for every day.
-- Zero rows: the claims took nothing, were not committed, or are still under way.
SELECT e.job_id, e.fire_at, e.tenant_id, e.queue, e.priority, e.due_at, e.run_at, e.start_by, e.deadline_at,
       e.started_at, e.attempt, e.earlier_attempts, e.overlap, e.limit_key, e.waits_for, e.origin_fire_at,
       e.missed_after, j.target, j.policies, j.version, e.claim_token, e.has_floor
FROM executions e LEFT JOIN LATERAL (
    SELECT * FROM jobs j WHERE j.cell = e.cell AND j.tenant_id = e.tenant_id AND j.id = e.job_id OFFSET 0) AS j ON true
WHERE e.cell = $1 AND e.claim_token IS NOT NULL AND e.deadline_at > tocsin_now() AND e.claim_token = ANY ($2::bigint[])
