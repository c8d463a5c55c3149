-- Wait for whoever decides about the floor of these jobs. Called before their executions are finished.
SELECT true FROM solos WHERE cell = $1 AND job_id = ANY ($2::uuid[]) ORDER BY job_id FOR UPDATE
