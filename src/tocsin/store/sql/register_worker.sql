-- Write down a remote worker.
-- Caller: WorkerStore.register.
-- Locks: the new row.
-- Index: none. It only adds.
-- Zero rows: it returns none.
INSERT INTO workers (id, tenant_id, key_id, name, app, revision, sdk, queues, tasks, capacity, lease)
VALUES (:id, :tenant_id, :key_id, :name, :app, :revision, :sdk, :queues, :tasks, :capacity, :lease)
