-- Which of these claims still have executions. Asked for claims whose answer was lost: what they had started
-- is reclaimed when its deadline has passed.
-- Caller: Slots.resolve_doubts.
-- Locks: nothing.
-- Index: executions_deadline, all claims, so only after a lost answer.
-- Zero rows: none has.
SELECT DISTINCT e.claim_token FROM executions e
WHERE e.cell = :cell AND e.claim_token IS NOT NULL AND e.claim_token = ANY (:tokens::bigint[])
