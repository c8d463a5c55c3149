-- Let claims wait for their turn: back into the queue, to be looked at again when the floor is free, or after a
-- while in case that was missed. Called by PostgresQueue.start_solo inside its transaction.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, deadline_at = NULL, run_at = tocsin_now() + interval '10 seconds'
FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[]) AS w (job_id, fire_at, token)
WHERE e.cell = $1 AND e.job_id = w.job_id AND e.fire_at = w.fire_at AND e.claim_token = w.token
