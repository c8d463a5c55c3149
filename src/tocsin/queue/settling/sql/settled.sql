-- Which of these settlements are in history already? Asked when `finish` or `succeed` moved fewer rows than
-- were given: an earlier try may have committed although its answer was lost on the way. A row that ended in
-- another state than `states` says was not written by such a try: the reclaimer ends executions under the
-- tokens of those that were lost. Without a state any end counts.
-- Caller: Holding.settled, Settling._not_in_history.
-- Locks: nothing.
-- Index: history_of_job.
-- Zero rows: every claim was lost before it could be settled.
SELECT s.place::integer - 1 AS place
FROM (
    SELECT :cell::smallint AS cell, g.* FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[],
                                                          :states::text[])
        WITH ORDINALITY AS g (job_id, fire_at, token, state, place) OFFSET 0
) AS s
JOIN history h ON h.cell = ANY (ARRAY[s.cell]) AND h.job_id = s.job_id AND h.fire_at = s.fire_at
  AND h.claim_token = s.token AND (s.state IS NULL OR h.state = s.state)
