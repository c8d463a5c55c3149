-- An operation acts on however many match: schedulers write down, chunk by chunk, what its creation had no room for.
-- runs beside: 0040

-- `gathering` says what is still to be looked up and from which place on; it is NULL once all is written down. `gather_at` is
-- when somebody looks next. Until then `resume_at` lies beyond all time, so that no version acts on a part and takes it for all.
ALTER TABLE operations ADD COLUMN gathering jsonb, ADD COLUMN gather_at timestamptz;
