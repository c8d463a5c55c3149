-- Days of history and of the audit log are copied into Parquet files before they are dropped.
-- runs beside: 0008

-- What is in the archive: files are never listed to find out. A day is cut into parts by tenant and instant; a part has the
-- rows after one place and up to another, and the first and last part are open, so that the parts of a day have every row.
-- A day that was dropped and has rows again (a clock was wrong) gets a round of its own.
CREATE TABLE archives (
    name         text NOT NULL,     -- of the table
    day          date NOT NULL,
    round        smallint NOT NULL,
    part         integer NOT NULL,
    state        text NOT NULL DEFAULT 'exporting' CHECK (state IN ('exporting', 'written', 'verified', 'dropped')),
    after_tenant integer,           -- exclusive; NULL from the beginning
    after_at     timestamptz,
    upto_tenant  integer,           -- inclusive; NULL to the end
    upto_at      timestamptz,
    tries        integer NOT NULL DEFAULT 1,   -- whoever exports with an older number has lost the part
    rows         bigint,            -- in the snapshot that was copied
    content      text,              -- of these rows: see tocsin.archive.tables
    object       text,              -- the file's name; NULL without rows
    sha256       text,
    bytes        bigint,
    edition      smallint NOT NULL, -- which columns the file has
    failures     integer NOT NULL DEFAULT 0,   -- since it last went well
    trouble      text,
    began_at     timestamptz NOT NULL DEFAULT tocsin_now(),
    changed_at   timestamptz NOT NULL DEFAULT tocsin_now(),
    PRIMARY KEY (name, day, round, part)
);

-- Files that were replaced, or may have been begun in vain. They are removed a day later.
CREATE TABLE archive_leftovers (
    object text PRIMARY KEY,
    since  timestamptz NOT NULL DEFAULT tocsin_now()
);
