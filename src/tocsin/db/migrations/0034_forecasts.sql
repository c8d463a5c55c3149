-- What is to fire in the coming days, kept by the schedulers, so that nobody who asks has to wait for it to be computed.
-- runs beside: 0008

-- How many fires a shard's recurring jobs of a tenant and queue have on a day (UTC), by its minutes; minutes without any are left out.
-- The owner of a shard writes its rows, all of them anew whenever its jobs have changed.
CREATE TABLE forecasts (
    tenant_id integer NOT NULL,
    day       date NOT NULL,
    queue     text NOT NULL,
    shard     smallint NOT NULL,
    minutes   smallint[] NOT NULL,
    fires     real[] NOT NULL,
    PRIMARY KEY (tenant_id, day, queue, shard)
);
CREATE INDEX forecasts_of_shard ON forecasts (shard);

-- The largest groups of a shard's jobs with equal schedules, to name who makes a peak.
CREATE TABLE forecast_groups (
    tenant_id integer NOT NULL,
    shard     smallint NOT NULL,
    place     smallint NOT NULL,
    queue     text NOT NULL,
    schedule  text NOT NULL,
    number    integer NOT NULL,
    job_id    uuid NOT NULL,
    name      text,
    PRIMARY KEY (tenant_id, shard, place)
);
CREATE INDEX forecast_groups_of_shard ON forecast_groups (shard);

-- When each shard was looked at last, and whether all of its jobs were summed up.
CREATE TABLE forecast_shards (
    shard       smallint PRIMARY KEY,
    computed_at timestamptz NOT NULL,
    whole       boolean NOT NULL
) WITH (fillfactor = 50);
