-- Jobs of a queue other than the common one are found without reading those of all queues.
-- runs beside: 0008
CREATE INDEX jobs_of_queue ON jobs (tenant_id, queue, id) WHERE queue <> 'default';
