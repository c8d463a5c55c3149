-- Executions of a tenant that were named one by one, in that order, with their states.
-- Caller: operations.named_executions. It stands inside the statements of OperationStore.
-- Locks: nothing.
-- Index: executions_pkey, history_of_job.
-- Zero rows: none was named. One that is not there is `unknown`.
SELECT g.job_id, g.fire_at, NULL::timestamptz AS finished_at, coalesce(e.state, h.state, 'unknown') AS state
FROM unnest($3::uuid[], $4::timestamptz[]) WITH ORDINALITY AS g (job_id, fire_at, place)
LEFT JOIN LATERAL (
    SELECT CASE WHEN e.claim_token IS NULL THEN 'queued' WHEN e.started_at IS NULL THEN 'claimed' ELSE 'running' END AS state
    FROM executions e WHERE e.cell = $1 AND e.job_id = g.job_id AND e.fire_at = g.fire_at AND e.tenant_id = $2
) AS e ON true
LEFT JOIN LATERAL (
    SELECT h.state FROM history h WHERE h.cell = $1 AND h.job_id = g.job_id AND h.fire_at = g.fire_at AND h.tenant_id = $2
    ORDER BY h.state = 'skipped' LIMIT 1
) AS h ON true
ORDER BY g.place
