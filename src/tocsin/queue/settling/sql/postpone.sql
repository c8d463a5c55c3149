-- Put executions back whose call never went out: the host of their target is at rest, or they were
-- started ahead of their instant and are too late by now, or their worker stops. No attempt was made, so
-- none is counted, and a latest start still holds. What waits for its host, or was put off by its task,
-- came in time and will not have been missed. Of a reason such as `host:rest` the row says the kind, its
-- waits say all. Nor can a further attempt be: an older build, which knows
-- nothing of that, may have left it so. An execution that was asked to stop is not put back: it is not
-- returned, and the caller ends it. run_at lies at or after now: the lanes' low marks rely on nothing
-- entering the queue below them.
-- Caller: Settling.postpone, Settling.put_back.
-- Locks: the rows, in the order of the batch; fenced by token.
-- Index: executions_pkey.
-- Zero rows: every claim was lost, or asked to stop.
UPDATE executions e
SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, started_at = NULL,
    waits_for = coalesce(r.waits_for, e.waits_for), late_for = NULL,
    waits = further_wait(ended_waits(e.waits, e.late_for, e.run_at, tocsin_now()), NULL, tocsin_now(), r.reason,
                         tocsin_now()),
    missed_after = CASE WHEN coalesce(r.waits_for, '') NOT IN ('host', 'task') AND e.attempt = 1 THEN e.missed_after END,
    run_at = greatest(r.run_at, tocsin_now())
FROM (
    SELECT :cell::smallint AS cell, g.*, split_part(g.reason, ':', 1) AS waits_for
    FROM unnest(:job_ids::uuid[], :fire_ats::timestamptz[], :tokens::bigint[], :run_ats::timestamptz[],
                :reasons::text[])
        WITH ORDINALITY AS g (job_id, fire_at, token, run_at, reason, place) OFFSET 0
) AS r
WHERE e.cell = ANY (ARRAY[r.cell]) AND e.job_id = r.job_id AND e.fire_at = r.fire_at
  AND e.claim_token IS NOT DISTINCT FROM r.token
  AND NOT e.cancel_requested
RETURNING r.place::integer - 1 AS place
