-- Why an execution was late is kept with it, so that nobody has to guess afterwards.
-- runs beside: 0008

-- `waits`: what held the execution back, in order: [{"for": "slot", "since": …, "until": …}], instants in microseconds.
-- The last one has no end while it lasts; it ends at the row's run_at.
-- `late_for`: what held it back between run_at and started_at, when that was a second or more.
-- Both are NULL for what started on time.
ALTER TABLE executions ADD COLUMN waits jsonb, ADD COLUMN late_for text;
ALTER TABLE history ADD COLUMN waits jsonb, ADD COLUMN late_for text;

CREATE FUNCTION microseconds(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM at) * 1000000)::bigint $$;

-- The waits of an execution that leaves the queue for now: the last one ended at run_at, and from then on until `ended`
-- `late_for` held the execution back.
CREATE FUNCTION ended_waits(waits jsonb, late_for text, run_at timestamptz, ended timestamptz) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN waits IS NULL AND late_for IS NULL THEN NULL
        ELSE CASE WHEN waits IS NULL THEN '[]'
                  WHEN waits -> -1 ? 'until' THEN waits
                  ELSE jsonb_set(waits, '{-1,until}', to_jsonb(microseconds(run_at))) END
             || CASE WHEN late_for IS NULL OR jsonb_array_length(coalesce(waits, '[]')) >= 20 THEN '[]'
                     ELSE jsonb_build_array(jsonb_build_object('for', late_for, 'since', microseconds(run_at),
                                                               'until', microseconds(ended))) END
    END
$$;

-- The waits of an execution that is put back because of `reason`. One that goes on waiting for the same is one wait.
-- At most 20 are kept.
CREATE FUNCTION further_wait(waits jsonb, late_for text, run_at timestamptz, reason text, since timestamptz) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN reason IS NULL OR jsonb_array_length(coalesce(waits, '[]')) >= 20 THEN waits
        WHEN late_for IS NULL AND waits -> -1 ->> 'for' = reason AND NOT waits -> -1 ? 'until' THEN waits
        ELSE coalesce(ended_waits(waits, late_for, run_at, since), '[]')
             || jsonb_build_array(jsonb_build_object(
                    'for', reason,
                    'since', microseconds(CASE WHEN late_for IS NULL THEN least(run_at, since) ELSE since END)))
    END
$$;

-- The waits of an execution that is over or tried again: `late_for` held it back from run_at to started_at, and its host
-- from then until its call went out.
CREATE FUNCTION waits_until_called(waits jsonb, late_for text, run_at timestamptz, started_at timestamptz,
                                   called_at timestamptz) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN called_at > started_at + interval '1 second'
        THEN coalesce(ended_waits(waits, late_for, run_at, started_at), '[]')
             || jsonb_build_array(jsonb_build_object('for', 'host', 'since', microseconds(started_at),
                                                     'until', microseconds(called_at)))
        ELSE ended_waits(waits, late_for, run_at, started_at)
    END
$$;
