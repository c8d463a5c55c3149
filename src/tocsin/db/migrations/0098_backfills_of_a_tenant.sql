-- The backfills of a tenant, newest first, whatever their jobs are.
-- runs beside: 0040

-- There is a row for each backfill that somebody asked for, so this takes no time that matters.
CREATE INDEX backfills_of_tenant ON backfills (tenant_id, id);
