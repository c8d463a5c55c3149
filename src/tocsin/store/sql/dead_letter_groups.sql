-- A tenant's dead letters that ended from $2 until $3, in one queue or, without $4, in all, by kind of error:
-- the most frequent $6 kinds. Only the newest $5 are read; `read` is how many there were. A kind is a
-- fingerprint: it tells statuses apart. `hourly` counts each of the 24 hours before $3, the latest last.
-- Caller: DeadLetterStore.groups.
-- Locks: nothing.
-- Index: history_dead_letters, history_dead, history_of_job. The second is for days from before the first; by
-- the third the latest of each kind is read.
-- Zero rows: nothing died.
WITH letter AS MATERIALIZED (
    SELECT row_number() OVER () AS place, d.*
    FROM (
        SELECT h.error_fingerprint, h.job_id, h.fire_at, h.finished_at
        FROM history h
        WHERE h.tenant_id = $1 AND h.state = 'dead' AND h.discarded_at IS NULL AND h.finished_at >= $2 AND h.finished_at < $3
          AND ($4::text IS NULL OR h.queue = $4)
        ORDER BY h.finished_at DESC LIMIT $5
    ) AS d
), hour AS (
    SELECT error_fingerprint, floor(extract(epoch FROM $3::timestamptz - finished_at) / 3600)::integer AS hour, count(*) AS number
    FROM letter WHERE finished_at > $3::timestamptz - interval '24 hours' GROUP BY 1, 2
), kind AS (
    SELECT error_fingerprint, count(*)::integer AS number, count(DISTINCT job_id)::integer AS jobs, min(place) AS latest,
           min(finished_at) AS first_at, max(finished_at) AS last_at
    FROM letter GROUP BY 1 ORDER BY 2 DESC, 6 DESC LIMIT $6
)
SELECT k.error_fingerprint, k.number, k.jobs, k.first_at, k.last_at, s.job_id, s.fire_at, r.reason AS error, r.status,
       (SELECT count(*) FROM letter)::integer AS read,
       ARRAY (SELECT coalesce(h.number, 0)::integer FROM generate_series(23, 0, -1) AS g (hour)
              LEFT JOIN hour h ON h.hour = g.hour AND h.error_fingerprint IS NOT DISTINCT FROM k.error_fingerprint
              ORDER BY g.hour DESC) AS hourly
FROM kind k
JOIN letter s ON s.place = k.latest
CROSS JOIN LATERAL (
    SELECT h.reason, h.outcome -> 'detail' ->> 'status' AS status FROM history h
    WHERE h.cell = $7 AND h.job_id = s.job_id AND h.fire_at = s.fire_at AND h.tenant_id = $1 AND h.finished_at = s.finished_at
    LIMIT 1
) AS r
ORDER BY k.number DESC, k.last_at DESC
