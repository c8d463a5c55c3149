-- Begin a part of a day: its rows lie behind one place and up to another.
-- Caller: ArchiveStore._cut.
-- Locks: the row.
-- Index: archives_pkey.
-- Zero rows: never; a part that exists already is an error.
INSERT INTO archives (name, day, round, part, after_tenant, after_at, upto_tenant, upto_at, edition)
VALUES (:name, :day, :round, :part, :after_tenant, :after_at, :upto_tenant, :upto_at, :edition)
RETURNING *
