-- Days of history and of the audit log are made one by one, although the default partition has rows of them.
-- runs beside: 0008

-- Make the partition of one day. Returns whether there was none. `key` is the column that the table is partitioned by.
-- A row that came before its day was made, or from a clock that was wrong, is in the default partition: it moves in the same
-- transaction. Most rows move while others read and write; then the default partition is locked, the few that came meanwhile
-- follow, and the ready-made table is attached, which reads what is left of the default partition.
CREATE FUNCTION make_day(parent text, key text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    partition CONSTANT text := parent || '_' || to_char(day, 'YYYYMMDD');
    first CONSTANT timestamptz := day::timestamp AT TIME ZONE 'UTC';
    beyond CONSTANT timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
    move CONSTANT text := format(
        'WITH moved AS (DELETE FROM %I WHERE %I >= %L AND %I < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
        parent || '_default', key, first, key, beyond, partition);
BEGIN
    IF to_regclass(partition) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', partition, parent);
    EXECUTE move;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
    EXECUTE move;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, partition, first, beyond);
    RETURN true;
END $$;

-- What nodes of the version before call: the same, for many days at once.
CREATE OR REPLACE FUNCTION make_daily_partitions(parent text, first date, days integer) RETURNS integer LANGUAGE sql AS $$
    SELECT count(*) FILTER (WHERE make_day(parent, CASE parent WHEN 'audit' THEN 'at' ELSE 'finished_at' END, first + n))::integer
    FROM generate_series(0, days - 1) AS n
$$;
