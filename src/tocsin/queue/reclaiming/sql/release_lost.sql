-- Give back claims that were not started and whose worker is no longer in the fleet. Runs when a worker has
-- vanished. A worker that lives after all presents a token that is no longer on the row, and starts nothing.
-- run_at is brought up to now at least, for the lanes' low marks.
-- Caller: Reclaiming.release_lost.
-- Locks: the rows, skipping any that another transaction holds.
-- Index: executions_deadline, all claims, so only then.
-- Zero rows: never; it returns how many went back.
WITH released AS (
    UPDATE executions e
    SET claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL, run_at = greatest(e.run_at, tocsin_now()),
        late_for = NULL, waits = CASE WHEN e.run_at < tocsin_now()
                                      THEN further_wait(e.waits, e.late_for, e.run_at, 'worker', tocsin_now())
                                      ELSE e.waits END
    WHERE e.ctid = ANY (ARRAY (
        SELECT c.ctid FROM executions c
        WHERE c.cell = :cell AND c.claim_token IS NOT NULL AND c.started_at IS NULL
          AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = c.node_id AND n.expires_at > tocsin_now())
        LIMIT :limit
        FOR UPDATE OF c SKIP LOCKED
    ))
    RETURNING 1
)
SELECT count(*)::integer AS released, CASE WHEN count(*) > 0 THEN pg_notify('tocsin', 'ready') END FROM released
