-- Triggers that write down every change of an execution, a cursor or a lease, in the order they happened and
-- by the database's (virtual) clock. The checker judges by these notes, never by what the product says of itself.
CREATE TABLE watched_executions (
    place bigserial PRIMARY KEY, at timestamptz NOT NULL, job_id uuid NOT NULL, fire_at timestamptz NOT NULL,
    what text NOT NULL, state text NOT NULL, token bigint, attempt integer NOT NULL, run_at timestamptz NOT NULL,
    started_at timestamptz, deadline_at timestamptz, stop_asked boolean NOT NULL
);
CREATE FUNCTION watch_live() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    e executions := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    INSERT INTO watched_executions (at, job_id, fire_at, what, state, token, attempt, run_at, started_at, deadline_at,
                                    stop_asked)
    VALUES (tocsin_now(), e.job_id, e.fire_at,
            CASE TG_OP WHEN 'INSERT' THEN 'born' WHEN 'UPDATE' THEN 'changed' ELSE 'gone' END,
            CASE WHEN e.claim_token IS NULL THEN 'queued' WHEN e.started_at IS NULL THEN 'claimed' ELSE 'running' END,
            e.claim_token, e.attempt, e.run_at, e.started_at, e.deadline_at, e.cancel_requested);
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER INSERT OR UPDATE OR DELETE ON executions FOR EACH ROW EXECUTE FUNCTION watch_live();

CREATE FUNCTION watch_history() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    h history := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    INSERT INTO watched_executions (at, job_id, fire_at, what, state, token, attempt, run_at, started_at, stop_asked)
    VALUES (tocsin_now(), h.job_id, h.fire_at, CASE TG_OP WHEN 'INSERT' THEN 'ended' ELSE 'revived' END, h.state,
            h.claim_token, h.attempt, h.run_at, h.started_at, false);
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER INSERT OR DELETE ON history FOR EACH ROW EXECUTE FUNCTION watch_history();

-- `writer` is who the simulation says is writing: a node and the epochs it believes in, or nobody for clients.
CREATE TABLE watched_cursors (
    place bigserial PRIMARY KEY, at timestamptz NOT NULL, job_id uuid NOT NULL, shard smallint NOT NULL,
    before timestamptz, after timestamptz, writer text, owner bigint, epoch bigint, expires_at timestamptz
);
CREATE FUNCTION watch_cursor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO watched_cursors (at, job_id, shard, before, after, writer, owner, epoch, expires_at)
    SELECT tocsin_now(), NEW.id, NEW.shard, OLD.next_fire_at, NEW.next_fire_at,
           nullif(current_setting('simulation.writer', true), ''), s.owner, s.epoch, s.expires_at
    FROM shards s WHERE s.shard = NEW.shard;
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER UPDATE ON jobs FOR EACH ROW
WHEN (OLD.next_fire_at IS DISTINCT FROM NEW.next_fire_at) EXECUTE FUNCTION watch_cursor();

CREATE TABLE watched_leases (
    place bigserial PRIMARY KEY, at timestamptz NOT NULL, shard smallint NOT NULL,
    owner_before bigint, epoch_before bigint NOT NULL, expired_before timestamptz NOT NULL,
    owner bigint, epoch bigint NOT NULL
);
CREATE FUNCTION watch_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO watched_leases (at, shard, owner_before, epoch_before, expired_before, owner, epoch)
    VALUES (tocsin_now(), NEW.shard, OLD.owner, OLD.epoch, OLD.expires_at, NEW.owner, NEW.epoch);
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER UPDATE ON shards FOR EACH ROW
WHEN (OLD.owner IS DISTINCT FROM NEW.owner OR OLD.epoch <> NEW.epoch) EXECUTE FUNCTION watch_lease();
