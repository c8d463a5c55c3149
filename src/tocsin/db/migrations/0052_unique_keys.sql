-- Keys under which one job is live at a time.
-- runs beside: 0040

-- The key is on the execution: it is taken with the row and free when the row goes, whoever settles, cancels or removes it. It
-- counts among executions of one route, so that two tasks do not take each other's keys.
ALTER TABLE executions ADD COLUMN unique_key text;
CREATE UNIQUE INDEX executions_unique_key ON executions (cell, tenant_id, route, unique_key) WHERE unique_key IS NOT NULL;

-- As before, with a key: while an execution of this task under this key is live, its job is returned and none is made. The
-- function gets a parameter more, so it is made anew, and logins that were bound before get their right back.
DROP FUNCTION enqueue;
CREATE FUNCTION enqueue(
    task text, payload jsonb DEFAULT NULL, run_at timestamptz DEFAULT NULL, queue text DEFAULT 'default',
    priority integer DEFAULT 5, policies jsonb DEFAULT '{}', tags text[] DEFAULT '{}', trace text DEFAULT NULL,
    job_id uuid DEFAULT NULL, notify boolean DEFAULT true, unique_key text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = tocsin, pg_temp AS $$
DECLARE
    known uuid;
    violated text;
BEGIN
    IF job_id IS NOT NULL THEN
        PERFORM check_job_ids(ARRAY[job_id], 1, 'job_id');
    END IF;
    IF unique_key IS NOT NULL THEN
        PERFORM check_line(unique_key, 'unique_key', 200);
    END IF;
    FOR look IN 1..5 LOOP
        SELECT e.job_id INTO known FROM executions e
        WHERE e.cell = 0 AND e.tenant_id = login_tenant() AND e.route = 'task:' || enqueue.task
          AND e.unique_key = enqueue.unique_key;
        IF known IS NOT NULL THEN
            RETURN known;
        END IF;
        IF unique_key IS NULL THEN
            RETURN (enter_tasks(task, ARRAY[payload], 'payload', run_at, coalesce(queue, 'default'), coalesce(priority, 5),
                                policies, coalesce(tags, '{}'), trace,
                                CASE WHEN job_id IS NULL THEN new_job_ids(1) ELSE ARRAY[job_id] END, coalesce(notify, true)))[1];
        END IF;
        BEGIN
            known := (enter_tasks(task, ARRAY[payload], 'payload', run_at, coalesce(queue, 'default'), coalesce(priority, 5),
                                  policies, coalesce(tags, '{}'), trace,
                                  CASE WHEN job_id IS NULL THEN new_job_ids(1) ELSE ARRAY[job_id] END,
                                  coalesce(notify, true)))[1];
            UPDATE executions e SET unique_key = enqueue.unique_key WHERE e.cell = 0 AND e.job_id = known;
            RETURN known;
        EXCEPTION WHEN unique_violation THEN
            GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
            IF violated <> 'executions_unique_key' THEN
                RAISE;
            END IF;
            known := NULL;  -- another transaction took the key and committed: look again
        END;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
        MESSAGE = format('another transaction took the key %s, and this one cannot see it', unique_key),
        HINT = 'repeat the transaction';
END $$;
REVOKE ALL ON FUNCTION enqueue FROM PUBLIC;
DO $$
DECLARE
    bound name;
BEGIN
    FOR bound IN SELECT l.login FROM tenant_logins l JOIN pg_roles r ON r.rolname = l.login LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION enqueue TO %I', bound);
    END LOOP;
END $$;
