-- Note the file that was made for a part, before it is put under its name.
-- Caller: ArchiveStore.made.
-- Locks: the row.
-- Index: archives_pkey.
-- Zero rows: another node has the part by now.
UPDATE archives
SET rows = :rows, content = :content, object = :object, sha256 = :sha256, bytes = :bytes, edition = :edition,
    changed_at = tocsin_now()
WHERE name = :name AND day = :day AND round = :round AND part = :part AND tries = :tries AND state = 'exporting'
RETURNING 1
