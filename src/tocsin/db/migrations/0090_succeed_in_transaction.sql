-- A task settles its execution in a transaction of its own: what it wrote and the end of the execution commit together.
-- runs beside: 0040

-- What a transaction that is under way will settle at its commit. Empty for everybody else: the trigger below takes the row
-- away again. So the execution itself is locked for the moment of the commit only, and heartbeats, which extend many claims by
-- one statement, never wait for an application that leaves its transaction open.
CREATE TABLE settlements (
    cell      smallint NOT NULL,
    job_id    uuid NOT NULL,
    fire_at   timestamptz NOT NULL,
    token     bigint NOT NULL,
    tenant_id integer NOT NULL,
    result    jsonb,
    PRIMARY KEY (cell, job_id, fire_at, token)
);

CREATE FUNCTION refuse_lost_claim() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = 'the execution is not this attempt''s any more: its claim was lost, or it has ended',
        HINT = 'nothing of this transaction is kept; whoever has the execution now runs it';
END $$;

-- At the commit: the execution moves to history if its claim is still held, and the job's turn passes on; else the commit
-- fails. The row of history is the one that `finish` writes.
CREATE FUNCTION settle_at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = tocsin, pg_temp AS $$
DECLARE
    told settlements;
    moved record;
BEGIN
    DELETE FROM settlements s
    WHERE s.cell = NEW.cell AND s.job_id = NEW.job_id AND s.fire_at = NEW.fire_at AND s.token = NEW.token
    RETURNING * INTO told;
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
    RETURN NULL;
END $$;

-- As `pass_turns`, for one job.
CREATE FUNCTION wake_next_turn(of_cell smallint, of_job uuid) RETURNS void LANGUAGE plpgsql SET search_path = tocsin, pg_temp AS $$
BEGIN
    UPDATE executions e SET run_at = tocsin_now(), claim_token = NULL, node_id = NULL, worker_id = NULL, deadline_at = NULL
    FROM (
        SELECT w.fire_at, w.run_at FROM executions w
        WHERE w.cell = of_cell AND w.job_id = of_job AND w.overlap IS NOT NULL AND w.started_at IS NULL AND w.waits_for = 'turn'
          AND NOT EXISTS (SELECT FROM executions h WHERE h.cell = of_cell AND h.job_id = of_job AND h.has_turn)
        ORDER BY CASE WHEN w.overlap = 'replace' THEN w.fire_at END DESC NULLS LAST, w.fire_at
        LIMIT 1 FOR NO KEY UPDATE OF w SKIP LOCKED
    ) AS next
    WHERE e.cell = of_cell AND e.job_id = of_job AND e.fire_at = next.fire_at AND next.run_at > tocsin_now();
    IF FOUND THEN
        PERFORM pg_notify('tocsin', 'ready');
    END IF;
END $$;

CREATE CONSTRAINT TRIGGER settle_at_commit AFTER INSERT ON settlements DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION settle_at_commit();

-- What a task calls in its transaction: the execution ends as succeeded with this result if the transaction commits. A login that
-- is bound settles executions of its tenant only.
CREATE FUNCTION succeed(job_id uuid, fire_at timestamptz, token bigint, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = tocsin, pg_temp AS $$
DECLARE
    the_tenant integer;
BEGIN
    IF octet_length(result::text) > 262144 THEN
        PERFORM refuse('result', 'the result is larger than 256 KiB');
    END IF;
    SELECT e.tenant_id INTO the_tenant FROM executions e
    WHERE e.cell = 0 AND e.job_id = succeed.job_id AND e.fire_at = succeed.fire_at AND e.claim_token = succeed.token
      AND e.started_at IS NOT NULL AND e.tenant_id = coalesce(login_tenant(), e.tenant_id);
    IF NOT FOUND THEN
        PERFORM refuse_lost_claim();
    END IF;
    INSERT INTO settlements AS s (cell, job_id, fire_at, token, tenant_id, result)
    VALUES (0, succeed.job_id, succeed.fire_at, succeed.token, the_tenant, succeed.result)
    ON CONFLICT ON CONSTRAINT settlements_pkey DO UPDATE SET result = excluded.result;
END $$;

REVOKE ALL ON FUNCTION succeed, settle_at_commit, wake_next_turn FROM PUBLIC;
DO $$
DECLARE
    bound name;
BEGIN
    FOR bound IN SELECT l.login FROM tenant_logins l JOIN pg_roles r ON r.rolname = l.login LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION succeed TO %I', bound);
    END LOOP;
END $$;
