-- Executions that ended in a rare state, and jobs that are over, are found without reading those that succeeded or go on.
-- runs beside: 0008

-- Days that are over come first, so that what settles waits for today's alone.
DO $$
DECLARE
    day record;
BEGIN
    CREATE INDEX history_by_end ON ONLY history (tenant_id, state, finished_at) WHERE state <> 'succeeded';
    FOR day IN
        SELECT c.oid::regclass AS name, c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'history'::regclass ORDER BY c.relname = 'history_default', c.relname
    LOOP
        EXECUTE format('CREATE INDEX %I ON %s (tenant_id, state, finished_at) WHERE state <> ''succeeded''',
                       day.relname || '_by_end', day.name);
        EXECUTE format('ALTER INDEX history_by_end ATTACH PARTITION %I', day.relname || '_by_end');
    END LOOP;
END $$;
CREATE INDEX jobs_over_of_tenant ON jobs (tenant_id, id) WHERE state = 'cancelled';
