-- Parts of an archived day are bounded by size, too: rows of one tenant and instant may be more than a part holds.
-- runs beside: 0040

-- What tells rows apart that have the tenant and the instant of a bound; NULL where all of these are on one side of it.
ALTER TABLE archives ADD COLUMN after_tie text, ADD COLUMN upto_tie text;
