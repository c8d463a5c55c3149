-- Begin a part of a day: its rows lie behind one place and up to another.
-- Caller: ArchiveStore._cut.
-- Locks: the row.
-- Index: archives_pkey.
-- Zero rows: never; a part that exists already is an error.
INSERT INTO archives (name, day, round, part, after_tenant, after_at, after_tie, upto_tenant, upto_at, upto_tie,
                      edition)
VALUES (:name, :day, :round, :part, :after_tenant, :after_at, :after_tie, :upto_tenant, :upto_at, :upto_tie,
        :edition)
RETURNING *
