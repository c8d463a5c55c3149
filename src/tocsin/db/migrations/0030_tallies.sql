-- Numbers of what ended, kept as it ends, so that plots do not read history.
-- runs beside: 0008

-- What ended within one bucket of `step_s` seconds from `bucket` on: 60 and 3600 by tenant, 10 for the whole fleet (tenant 0).
-- A node writes its own rows, always with all it counted in the bucket, so writing again does no harm. What did not succeed is
-- counted from history by the scheduler with shard 0, under node 0; `tocsin tallies rebuild` writes under node -1.
-- `lag` and `run` are histograms over the bounds of domain/tally.py, without the zeros at their ends.
CREATE TABLE tallies (
    tenant_id integer NOT NULL,
    step_s    smallint NOT NULL CHECK (step_s IN (10, 60, 3600)),
    bucket    timestamptz NOT NULL,
    queue     text NOT NULL,
    state     text NOT NULL,
    node_id   bigint NOT NULL,
    count     bigint NOT NULL,
    lag       integer[] NOT NULL DEFAULT '{}',
    run       integer[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, step_s, bucket, queue, state, node_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 10000);

-- What did not succeed, by its end: few beside what succeeds, which pays nothing for it. Days that are over come first, so that
-- what settles waits for today's alone: a scan of it, about a second for ten million rows.
DO $$
DECLARE
    day record;
BEGIN
    CREATE INDEX history_unsuccessful ON ONLY history (finished_at) WHERE state <> 'succeeded';
    FOR day IN
        SELECT c.oid::regclass AS name, c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'history'::regclass ORDER BY c.relname = 'history_default', c.relname
    LOOP
        EXECUTE format('CREATE INDEX %I ON %s (finished_at) WHERE state <> ''succeeded''', day.relname || '_unsuccessful', day.name);
        EXECUTE format('ALTER INDEX history_unsuccessful ATTACH PARTITION %I', day.relname || '_unsuccessful');
    END LOOP;
END $$;

-- The histogram of spans in milliseconds, with the bounds of domain/tally.py. A span that is equal to a bound lies below it.
CREATE FUNCTION tally_bins(spans_ms float8[]) RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_agg(coalesce(b.number, 0) ORDER BY bin)
    FROM generate_series(0, 17) AS bin
    LEFT JOIN (
        SELECT width_bucket(s - 0.0005, ARRAY[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000,
                                     3600000]::float8[]) AS place, count(*)::integer AS number
        FROM unnest(spans_ms) AS s GROUP BY 1
    ) AS b ON b.place = bin
$$;
