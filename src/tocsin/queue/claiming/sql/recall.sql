-- What is held under the tokens of claims whose answer was lost. What passed its deadline may be another
-- worker's by now, and is left to the reclaimer.
-- Caller: Claiming.recall.
-- Locks: nothing.
-- Index: executions_deadline, all claims that are not overdue, so only after a lost answer.
-- Zero rows: the claims took nothing, were not committed, or are still under way.
\ir claim_columns.sql
FROM executions e LEFT JOIN LATERAL (
    SELECT * FROM jobs j WHERE j.cell = e.cell AND j.tenant_id = e.tenant_id AND j.id = e.job_id OFFSET 0) AS j ON true
WHERE e.cell = :cell AND e.claim_token IS NOT NULL AND e.deadline_at > tocsin_now()
  AND e.claim_token = ANY (:tokens::bigint[])
