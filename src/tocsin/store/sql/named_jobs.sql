-- Jobs of a tenant that were named one by one, in that order, with their states.
-- Caller: operations.named_jobs. It stands inside the statements of OperationStore.
-- Locks: nothing.
-- Index: jobs_pkey.
-- Zero rows: none was named. One that is not there is `unknown`.
SELECT g.job_id, NULL::timestamptz AS fire_at, NULL::timestamptz AS finished_at, coalesce(j.state, 'unknown') AS state
FROM unnest($3::uuid[]) WITH ORDINALITY AS g (job_id, place)
LEFT JOIN jobs j ON j.cell = $1 AND j.id = g.job_id AND j.tenant_id = $2
ORDER BY g.place
