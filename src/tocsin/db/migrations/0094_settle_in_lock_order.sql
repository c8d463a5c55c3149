-- A transaction that settles several executions takes them in the common order, whatever order it settled them in.
-- runs beside: 0040

-- As before, but the first row's trigger settles everything that the transaction has to settle. Heartbeats and workers take
-- many executions at once, in lock order, and would else wait for this commit in a circle. The table shows a transaction its
-- own rows only, for nobody's are there once it has committed.
CREATE OR REPLACE FUNCTION settle_at_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = tocsin, pg_temp AS $$
DECLARE
    told settlements;
BEGIN
    IF NOT EXISTS (SELECT FROM settlements s
                   WHERE s.cell = NEW.cell AND s.job_id = NEW.job_id AND s.fire_at = NEW.fire_at AND s.token = NEW.token) THEN
        RETURN NULL;
    END IF;
    FOR told IN
        SELECT s.* FROM settlements s
        ORDER BY (SELECT e.has_turn FROM executions e
                  WHERE e.cell = s.cell AND e.job_id = s.job_id AND e.fire_at = s.fire_at) IS NOT TRUE, s.job_id, s.fire_at
    LOOP
        PERFORM settle_one(told);
    END LOOP;
    DELETE FROM settlements;
    RETURN NULL;
END $$;

-- The execution moves to history if its claim is still held, and the job's turn passes on; else the commit fails. The row of
-- history is the one that `finish` writes.
CREATE FUNCTION settle_one(told settlements) RETURNS void LANGUAGE plpgsql SET search_path = tocsin, pg_temp AS $$
DECLARE
    moved record;
BEGIN
    WITH ended AS (
        DELETE FROM executions e
        WHERE e.cell = told.cell AND e.job_id = told.job_id AND e.fire_at = told.fire_at AND e.claim_token = told.token
          AND e.started_at IS NOT NULL
        RETURNING e.*
    ), kept AS (
        INSERT INTO history (cell, job_id, fire_at, tenant_id, queue, priority, cause, state, due_at, run_at, started_at,
                             finished_at, attempt, attempts, outcome, claim_token, node_id, worker_id, job_version,
                             origin_fire_at, backfill_id, waits, late_for)
        SELECT cell, job_id, fire_at, tenant_id, queue, priority, cause, 'succeeded', due_at, run_at, started_at,
               greatest(started_at, tocsin_now()), attempt, attempts,
               CASE WHEN told.result IS NOT NULL THEN jsonb_build_object('verdict', 'succeeded', 'result', told.result) END,
               claim_token, node_id, worker_id,
               (SELECT j.version FROM jobs j WHERE j.cell = ended.cell AND j.id = ended.job_id),
               origin_fire_at, backfill_id, waits, late_for
        FROM ended
    )
    SELECT e.overlap, e.limit_key INTO moved FROM ended e;
    IF NOT FOUND THEN
        PERFORM refuse_lost_claim();
    END IF;
    IF moved.overlap IS NOT NULL THEN
        PERFORM wake_next_turn(told.cell, told.job_id);
    END IF;
    IF moved.limit_key IS NOT NULL THEN
        PERFORM pg_notify('tocsin', 'settled');
    END IF;
END $$;

REVOKE ALL ON FUNCTION settle_one FROM PUBLIC;
