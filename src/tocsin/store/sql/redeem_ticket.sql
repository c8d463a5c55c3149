-- The ticket becomes the session, in one update, so that it is good for one login.
-- Caller: SessionStore.redeem.
-- Locks: the row.
-- Index: dashboard_sessions_pkey.
-- Zero rows: there is no such ticket, it was used, or it is over.
UPDATE dashboard_sessions
SET kind = 'session', token_hash = $2, created_at = tocsin_now(), expires_at = tocsin_now() + $3::interval
WHERE token_hash = $1 AND kind = 'ticket' AND expires_at > tocsin_now()
RETURNING key_id, expires_at
