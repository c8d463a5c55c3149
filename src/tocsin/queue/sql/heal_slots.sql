-- Give back slots whose attempt is over although nobody said so: the worker died, or the execution was cancelled.
-- Called by the reclaimer now and then. A slot is right as long as its execution runs under the same claim.
UPDATE limit_slots s SET job_id = NULL, fire_at = NULL, claim_token = NULL
WHERE s.cell = $1 AND s.job_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM executions e
    WHERE e.cell = s.cell AND e.job_id = s.job_id AND e.fire_at = s.fire_at AND e.claim_token = s.claim_token)
RETURNING s.tenant_id
