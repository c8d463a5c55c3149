-- A worker knows the lanes and asks only for new ones; lanes that nothing used for an hour are removed.
-- runs beside: 0008

-- `made_in` is the transaction that made the lane. A worker that has seen all lanes of transactions below the oldest one
-- that was under way (pg_snapshot_xmin) misses none if it asks for those from there on.
ALTER TABLE lanes
    ADD COLUMN made_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ADD COLUMN used_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE lanes ALTER COLUMN used_at SET DEFAULT tocsin_now();
CREATE INDEX lanes_made ON lanes (cell, made_in);

-- Keeps the lanes of new executions, whichever version of whatever program inserts them. A lane that exists is locked against
-- being removed until the executions are committed, and noted as used if that was not done lately; one that is missing is
-- made. A lane that somebody else makes at this moment needs no lock: it is not removed before it is an hour old.
CREATE FUNCTION keep_lanes() RETURNS trigger LANGUAGE plpgsql SET search_path = tocsin AS $$
DECLARE
    missing boolean;
    least_used timestamptz;
BEGIN
    WITH entering AS MATERIALIZED (
        SELECT DISTINCT cell, queue, priority, tenant_id FROM entered
    ), kept AS MATERIALIZED (
        SELECT k.used_at
        FROM entering e CROSS JOIN LATERAL (
            SELECT l.used_at FROM lanes l
            WHERE l.cell = e.cell AND l.queue = e.queue AND l.priority = e.priority AND l.tenant_id = e.tenant_id
            FOR KEY SHARE
        ) AS k
    )
    SELECT (SELECT count(*) FROM kept) < (SELECT count(*) FROM entering), (SELECT min(used_at) FROM kept)
    INTO missing, least_used;
    IF missing THEN
        INSERT INTO lanes (cell, queue, priority, tenant_id)
        SELECT DISTINCT cell, queue, priority, tenant_id FROM entered ORDER BY 1, 2, 3, 4
        ON CONFLICT DO NOTHING;
    END IF;
    IF least_used < tocsin_now() - interval '20 minutes' THEN
        UPDATE lanes SET used_at = tocsin_now()
        WHERE ctid = ANY (ARRAY (
            SELECT l.ctid
            FROM (SELECT DISTINCT cell, queue, priority, tenant_id FROM entered) AS e
            JOIN lanes l USING (cell, queue, priority, tenant_id)
            FOR NO KEY UPDATE OF l SKIP LOCKED));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER keep_lanes AFTER INSERT ON executions
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION keep_lanes();
