-- What a role may do by itself. One that owns the schema, or can become its owner, is not held by any wall.
-- Caller: logins._check_login.
-- Locks: nothing.
-- Index: none, the catalogue.
-- Zero rows: there is no such role.
SELECT r.rolcanlogin AS can_login,
       r.rolsuper OR r.rolbypassrls OR r.rolname IN (session_user, current_user)
           OR pg_has_role(r.oid, n.nspowner, 'MEMBER') AS rules
FROM pg_roles r, pg_namespace n
WHERE r.rolname = $1 AND n.nspname = 'tocsin'
