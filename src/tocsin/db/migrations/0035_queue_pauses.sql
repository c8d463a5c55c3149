-- Queues are paused by users: by whom, until when, and which pauses are over, for `explain` tells what they held back.
-- runs beside: 0008

ALTER TABLE queues
    ADD COLUMN paused_by text,
    ADD COLUMN paused_until timestamptz;

-- Pauses that are over. The one that lasts is in `queues`, where every worker looks.
CREATE TABLE queue_pauses (
    tenant_id  integer NOT NULL REFERENCES tenants,
    queue      text NOT NULL,
    paused_at  timestamptz NOT NULL,
    resumed_at timestamptz NOT NULL,
    paused_by  text NOT NULL,
    resumed_by text NOT NULL,
    reason     text
);
CREATE INDEX queue_pauses_of_queue ON queue_pauses (tenant_id, queue, resumed_at);
