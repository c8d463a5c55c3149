-- Files of dropped days of the table $1 that may have rows of the tenant $2 that ended between the instants
-- $5 and $6, which lie on the days $3 and $4. With each, how many rounds its day has, and whether one of its
-- parts ends amid an instant. The caller adds the order and the limit.
-- Caller: ArchivedExecutions._parts.
-- Locks: none.
-- Index: archives_pkey.
-- Zero rows: nothing of that is archived.
SELECT a.*, (SELECT count(DISTINCT r.round) FROM archives r WHERE r.name = a.name AND r.day = a.day) AS rounds,
       EXISTS (SELECT FROM archives t WHERE t.name = a.name AND t.day = a.day AND t.upto_tie IS NOT NULL) AS tied
FROM archives a
WHERE a.name = $1 AND a.state = 'dropped' AND a.rows > 0
  AND ($3::date IS NULL OR a.day >= $3) AND ($4::date IS NULL OR a.day <= $4)
  AND (a.after_tenant IS NULL OR a.after_tenant <= $2) AND (a.upto_tenant IS NULL OR a.upto_tenant >= $2)
  AND ($5::timestamptz IS NULL OR a.upto_tenant IS DISTINCT FROM $2 OR a.upto_at >= $5)
  AND ($6::timestamptz IS NULL OR a.after_tenant IS DISTINCT FROM $2 OR a.after_at < $6)
