-- Tenants that are being deleted: suspended for good, until everything that was theirs is gone, and the row with it.
-- runs beside: 0040

ALTER TABLE tenants ADD COLUMN deleted_at timestamptz;
-- A build that knows nothing of this may not let such a tenant go on.
ALTER TABLE tenants ADD CONSTRAINT tenants_deleted CHECK (deleted_at IS NULL OR state = 'suspended');
