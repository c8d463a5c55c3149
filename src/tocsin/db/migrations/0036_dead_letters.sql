-- A dead letter that somebody gave up is a dead letter no longer; its execution stays dead, and in history.
-- runs beside: 0008
ALTER TABLE history ADD COLUMN discarded_at timestamptz;

-- What is left to look at. Built on days to come only, at once, for they are empty: to build it on days that are there would hold up
-- everything that ends meanwhile. Those are read by `history_dead`, and gone when retention has passed. So the parent's index
-- never becomes valid, which nothing asks for: days made later copy it, and each is planned by its own.
CREATE INDEX history_dead_letters ON ONLY history (tenant_id, finished_at) WHERE state = 'dead' AND discarded_at IS NULL;
DO $$
DECLARE
    day record;
BEGIN
    FOR day IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'history'::regclass AND c.relname ~ '^history_\d{8}$'
          AND to_date(right(c.relname, 8), 'YYYYMMDD') > tocsin_now() AT TIME ZONE 'UTC'
    LOOP
        EXECUTE format('CREATE INDEX %I ON %I (tenant_id, finished_at) WHERE state = ''dead'' AND discarded_at IS NULL',
                       day.relname || '_dead_letters', day.relname);
        EXECUTE format('ALTER INDEX history_dead_letters ATTACH PARTITION %I', day.relname || '_dead_letters');
    END LOOP;
END $$;
