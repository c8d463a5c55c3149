-- The id of a backfill was its number among those of all tenants, so each told how many the others made. Now it is the microsecond
-- of its making, from 2025 on, and three random bits: it grows, fits into the 53 bits of a number in JSON, and tells nothing new.
-- runs beside: 0040
ALTER TABLE backfills ALTER COLUMN id DROP IDENTITY;
ALTER TABLE backfills ALTER COLUMN id SET DEFAULT
    ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 1735689600000000) << 3 | floor(random() * 8)::bigint;
