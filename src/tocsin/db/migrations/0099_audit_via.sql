-- An audit entry says through what its actor acted: NULL, or `dashboard`.
-- runs beside: 0040

ALTER TABLE audit ADD COLUMN via text;
