-- Who is logged in to the dashboard.
-- runs beside: 0008

-- A row is a ticket, good for one login, or a session, good until it expires; only
-- the hash of its text is kept. It is bound to a key and counts for nothing once the key does: see store/sql/find_session.sql.
CREATE TABLE dashboard_sessions (
    token_hash bytea PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('ticket', 'session')),
    tenant_id  integer NOT NULL REFERENCES tenants,
    key_id     text NOT NULL REFERENCES api_keys,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX dashboard_sessions_of_key ON dashboard_sessions (key_id, created_at);
CREATE INDEX dashboard_sessions_expiry ON dashboard_sessions (expires_at);
