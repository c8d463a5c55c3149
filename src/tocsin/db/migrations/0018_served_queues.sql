-- Which queues a worker serves, so that an execution in a queue that nobody serves can be told so. Empty: all queues.
-- runs beside: 0008
ALTER TABLE nodes ADD COLUMN queues text[] NOT NULL DEFAULT '{}';
