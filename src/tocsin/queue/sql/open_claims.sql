-- Which of these claims ($2: tokens) still have executions. Called by Slots for claims whose answer was lost: what they had
-- started is reclaimed when its deadline has passed. Index: executions_deadline, all of it: not for every day.
SELECT DISTINCT e.claim_token FROM executions e
WHERE e.cell = $1 AND e.claim_token IS NOT NULL AND e.claim_token = ANY ($2::bigint[])
