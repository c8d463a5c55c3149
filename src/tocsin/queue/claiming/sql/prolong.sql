-- Heartbeat of remote workers: move the deadlines of what they run, each by its worker's lease but never
-- beyond `latest`, and note how far they are. Returns which places of the batch are still held, and which of
-- them should stop. A claim past its latest is not returned: its deadline passes, and it counts as timed out.
-- Caller: Holding.prolong.
-- Locks: the rows, in the order of the batch; fenced by token.
-- Index: executions_pkey.
-- Zero rows: every claim was lost.
UPDATE executions e
SET deadline_at = least(tocsin_now() + h.lease, h.latest), progress = coalesce(h.progress, e.progress)
FROM (
    SELECT :cell::smallint AS cell, g.*
    FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[], :leases::interval[],
                :latest::timestamptz[], :progress::jsonb[])
        WITH ORDINALITY AS g (job_id, fire_at, token, lease, latest, progress, place) OFFSET 0
) AS h
WHERE e.cell = ANY (ARRAY[h.cell]) AND e.job_id = h.job_id AND e.fire_at = h.fire_at
  AND e.claim_token IS NOT DISTINCT FROM h.token AND h.latest > tocsin_now()
RETURNING h.place::integer - 1 AS place, e.cancel_requested, e.deadline_at
