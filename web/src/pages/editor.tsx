/** Create and edit, with the consequence beside the form: words, the next ten fires, what clock changes do. */
import { useEffect, useState } from "preact/hooks";
import { ask, get, patch, post, Refused } from "../api.ts";
import { useSettled } from "../hooks.ts";
import { asCurl, Copy } from "../parts/copy.tsx";
import { attempt } from "../parts/dialog.tsx";
import { Skeleton, Trouble } from "../parts/notices.tsx";
import { address, go } from "../router.ts";
import { session } from "../session.ts";
import { day, distance } from "../time.ts";
import type { Job, Preview } from "../types.ts";

type When = "every" | "cron" | "at" | "in";

interface Draft {
  name: string;
  when: When;
  every: string;
  cron: string;
  at: string;
  in: string;
  zone: string;
  dst: string;
  jitter: string;
  kind: "http" | "noop";
  method: string;
  url: string;
  body: string;
  queue: string;
  tags: string;
  attempts: string;
  overlap: string;
  misfire: string;
}

const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
const FRESH: Draft = {
  name: "",
  when: "cron",
  every: "5m",
  cron: "0 9 * * *",
  at: "",
  in: "10m",
  zone: local,
  dst: "cron",
  jitter: "",
  kind: "http",
  method: "POST",
  url: "",
  body: "",
  queue: "default",
  tags: "",
  attempts: "5",
  overlap: "allow",
  misfire: "fire_once",
};

export function Editor({ id }: { id?: string }) {
  const [job, load] = useState<Job | null>(null);
  const [error, fail] = useState<Refused | null>(null);
  useEffect(() => {
    if (id) get<Job>(`/jobs/${id}`).then(load).catch(fail);
  }, [id]);
  if (error) return <Trouble error={error} />;
  if (id && !job) return <Skeleton />;
  return <Form job={job} />;
}

function Form({ job }: { job: Job | null }) {
  const [draft, change] = useState<Draft>(() =>
    job ? draftOf(job) : { ...FRESH, url: session.value?.echo ? `${location.origin}/v1/echo` : "" },
  );
  const [error, fail] = useState<Refused | null>(null);
  const set = (changes: Partial<Draft>) => change({ ...draft, ...changes });
  const body = bodyOf(draft);
  const field = error?.problem.field ?? "";
  const save = async (event: Event) => {
    event.preventDefault();
    try {
      const saved = job
        ? await patch<Job>(`/jobs/${job.id}`, changesOf(job, body), job.version)
        : await post<Job>("/jobs", body);
      go(`/jobs/${saved.id}`);
    } catch (caught) {
      if (!(caught instanceof Refused)) throw caught;
      fail(caught);
    }
  };
  return (
    <>
      <p class="crumbs">
        <a href={address("/jobs")}>Jobs</a>
        {job && (
          <>
            {" › "}
            <a href={address(`/jobs/${job.id}`)}>{job.name ?? job.id}</a>
          </>
        )}
      </p>
      <h1>{job ? "Edit" : "New job"}</h1>
      <form class="editor" onSubmit={save}>
        <div class="card">
          <Field label="Name" problem={field === "name" ? error : null}>
            <input
              value={draft.name}
              maxLength={200}
              placeholder="nightly-report"
              onInput={(e) => set({ name: e.currentTarget.value })}
            />
          </Field>
          <fieldset>
            <legend>When</legend>
            <div class="switch">
              {(["every", "cron", "at", "in"] as When[]).map((when) => (
                <button
                  key={when}
                  type="button"
                  aria-pressed={draft.when === when}
                  onClick={() => set({ when })}
                >
                  {{ every: "every", cron: "cron", at: "once at", in: "once in" }[when]}
                </button>
              ))}
            </div>
            <WhenFields draft={draft} set={set} problem={field.startsWith("schedule") ? error : null} />
          </fieldset>
          <fieldset>
            <legend>What</legend>
            <div class="switch">
              {(["http", "noop"] as const).map((kind) => (
                <button
                  key={kind}
                  type="button"
                  aria-pressed={draft.kind === kind}
                  onClick={() => set({ kind })}
                >
                  {kind === "http" ? "call a URL" : "nothing"}
                </button>
              ))}
            </div>
            {draft.kind === "http" && (
              <TargetFields draft={draft} set={set} problem={field.startsWith("target") ? error : null} />
            )}
          </fieldset>
          <fieldset>
            <legend>If it fails, overlaps or is late</legend>
            <div class="row">
              <Field label="attempts at most">
                <input
                  type="number"
                  min={1}
                  max={100}
                  value={draft.attempts}
                  onInput={(e) => set({ attempts: e.currentTarget.value })}
                />
              </Field>
              <Field label="while one still runs">
                <select value={draft.overlap} onChange={(e) => set({ overlap: e.currentTarget.value })}>
                  {["allow", "skip", "queue", "collapse", "replace"].map((one) => (
                    <option key={one}>{one}</option>
                  ))}
                </select>
              </Field>
              <Field label="fires that were missed">
                <select value={draft.misfire} onChange={(e) => set({ misfire: e.currentTarget.value })}>
                  {["fire_once", "fire_all", "skip"].map((one) => (
                    <option key={one}>{one}</option>
                  ))}
                </select>
              </Field>
            </div>
            <div class="row">
              <Field label="queue">
                <input value={draft.queue} onInput={(e) => set({ queue: e.currentTarget.value })} />
              </Field>
              <Field label="tags, separated by commas">
                <input value={draft.tags} onInput={(e) => set({ tags: e.currentTarget.value })} />
              </Field>
            </div>
          </fieldset>
          {error && <Trouble error={error} />}
          <div class="actions">
            <button type="submit" class="primary">
              {job ? "Save" : "Create"}
            </button>
            {draft.kind === "http" && <TryIt target={body.target} />}
            <Copy curl={asCurl(job ? "PATCH" : "POST", job ? `/jobs/${job.id}` : "/jobs", body)} />
          </div>
        </div>
        <PreviewCard draft={draft} />
      </form>
    </>
  );
}

interface Parts {
  draft: Draft;
  set: (changes: Partial<Draft>) => void;
  problem: Refused | null;
}

function WhenFields({ draft, set, problem }: Parts) {
  const recurring = draft.when === "every" || draft.when === "cron";
  return (
    <>
      {draft.when === "every" && (
        <Field label="every" problem={problem}>
          <input
            value={draft.every}
            placeholder="5m, 1h30m, 10s"
            onInput={(e) => set({ every: e.currentTarget.value })}
          />
        </Field>
      )}
      {draft.when === "in" && (
        <Field label="once, in" problem={problem}>
          <input value={draft.in} placeholder="10m" onInput={(e) => set({ in: e.currentTarget.value })} />
        </Field>
      )}
      {draft.when === "at" && (
        <Field label={`once, at (${local})`} problem={problem}>
          <input
            type="datetime-local"
            step="1"
            value={draft.at}
            onInput={(e) => set({ at: e.currentTarget.value })}
          />
        </Field>
      )}
      {draft.when === "cron" && (
        <>
          <Field label="minute · hour · day · month · weekday" problem={problem}>
            <input
              class="cron"
              value={draft.cron}
              spellcheck={false}
              onInput={(e) => set({ cron: e.currentTarget.value })}
            />
          </Field>
          <div class="row">
            <Field label="zone">
              <input list="zones" value={draft.zone} onInput={(e) => set({ zone: e.currentTarget.value })} />
              <datalist id="zones">
                {Intl.supportedValuesOf("timeZone").map((one) => (
                  <option key={one} value={one} />
                ))}
              </datalist>
            </Field>
            <Field label="when clocks change">
              <select value={draft.dst} onChange={(e) => set({ dst: e.currentTarget.value })}>
                {["cron", "literal", "once"].map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            </Field>
          </div>
        </>
      )}
      {recurring && (
        <Field label="spread within (jitter), if many jobs share an instant">
          <input
            value={draft.jitter}
            placeholder="none"
            onInput={(e) => set({ jitter: e.currentTarget.value })}
          />
        </Field>
      )}
    </>
  );
}

function TargetFields({ draft, set, problem }: Parts) {
  return (
    <>
      <div class="row">
        <Field label="method">
          <select value={draft.method} onChange={(e) => set({ method: e.currentTarget.value })}>
            {["POST", "GET", "PUT", "PATCH", "DELETE"].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
        <Field label="URL" grow problem={problem}>
          <input
            type="url"
            value={draft.url}
            required
            placeholder="https://example.com/hook"
            onInput={(e) => set({ url: e.currentTarget.value })}
          />
        </Field>
      </div>
      <Field label="body: JSON, or text">
        <textarea
          rows={4}
          value={draft.body}
          spellcheck={false}
          onInput={(e) => set({ body: e.currentTarget.value })}
        />
      </Field>
    </>
  );
}

interface FieldProps {
  label: string;
  problem?: Refused | null;
  grow?: boolean;
  children: preact.ComponentChildren;
}

function Field({ label, problem, grow, children }: FieldProps) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child
    <label class={grow ? "field grow" : "field"}>
      <span>{label}</span>
      {children}
      {problem && <em role="alert">{problem.problem.detail}</em>}
    </label>
  );
}

/** Fire the same target once, now, and follow it. */
function TryIt({ target }: { target: unknown }) {
  const fire = async () => {
    const made = await attempt(
      post<Job>("/jobs", { schedule: { now: true }, target, retry: { max_attempts: 1 } }),
      "Trying it once.",
    );
    if (made) go(`/jobs/${made.id}`);
  };
  return (
    <button type="button" onClick={() => void fire()}>
      Try it once
    </button>
  );
}

function PreviewCard({ draft }: { draft: Draft }) {
  const schedule = useSettled(JSON.stringify(scheduleOf(draft)), 150);
  const [preview, show] = useState<Preview | null>(null);
  const [error, fail] = useState<string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    ask<Preview>("POST", "/schedules/preview", {
      body: { schedule: JSON.parse(schedule), limit: 10 },
      signal: stop.signal,
    })
      .then((found) => {
        show(found);
        fail(null);
      })
      .catch((caught) => caught instanceof Refused && fail(caught.problem.detail));
    return () => stop.abort();
  }, [schedule]);
  return (
    <aside class="card preview">
      <h2>It fires</h2>
      {error ? (
        <p class="trouble" role="alert">
          {error}
        </p>
      ) : (
        preview && (
          <>
            <p class="explained">{preview.explanation}</p>
            <ol class="coming-list">
              {preview.fires.map((fire) => (
                <li key={fire.at}>
                  <time dateTime={fire.at}>{fire.local.slice(11, 19)}</time>
                  <span>{day(Date.parse(fire.at))}</span>
                  <small>{distance(Date.parse(fire.at))}</small>
                </li>
              ))}
            </ol>
            {preview.warnings.map((warning) => (
              <p key={warning} class="warning">
                {warning}
              </p>
            ))}
          </>
        )
      )}
      {draft.when === "cron" && preview && !error && preview.warnings.length > 0 && (
        <ClockChange draft={draft} warning={preview.warnings[0]!} />
      )}
    </aside>
  );
}

/** What each of the three rules does at the next clock change that matters, side by side. */
function ClockChange({ draft, warning }: { draft: Draft; warning: string }) {
  const date = /\d{4}-\d\d-\d\d/.exec(warning)?.[0];
  const [columns, show] = useState<Record<string, string[]>>({});
  useEffect(() => {
    if (!date) return;
    const after = new Date(Date.parse(`${date}T00:00:00Z`) - 14 * 3_600_000).toISOString();
    for (const dst of ["cron", "literal", "once"]) {
      const schedule = { ...scheduleOf(draft), dst };
      ask<Preview>("POST", "/schedules/preview", { body: { schedule, after, limit: 50 } })
        .then((found) => {
          const fires = found.fires
            .filter((fire) => fire.local.startsWith(date))
            .map((fire) => fire.local.slice(11, 16));
          show((before) => ({ ...before, [dst]: fires }));
        })
        .catch(() => undefined);
    }
  }, [date, draft.cron, draft.zone]);
  if (!date) return null;
  return (
    <table class="dst">
      <caption>on {date}, when the clock changes</caption>
      <thead>
        <tr>
          {Object.keys(columns).map((dst) => (
            <th key={dst} class={dst === draft.dst ? "chosen" : ""}>
              {dst}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        <tr>
          {Object.entries(columns).map(([dst, fires]) => (
            <td key={dst}>
              {fires.length ? fires.slice(0, 6).join(", ") + (fires.length > 6 ? " …" : "") : "nothing"}
            </td>
          ))}
        </tr>
      </tbody>
    </table>
  );
}

function scheduleOf(draft: Draft): Record<string, unknown> {
  const jitter = draft.jitter ? { jitter: draft.jitter } : {};
  switch (draft.when) {
    case "every":
      return { every: draft.every, ...jitter };
    case "in":
      return { in: draft.in };
    case "at":
      return { at: draft.at ? new Date(draft.at).toISOString() : "" };
    case "cron":
      return { cron: draft.cron, time_zone: draft.zone || "UTC", dst: draft.dst, ...jitter };
  }
}

function bodyOf(draft: Draft): Record<string, unknown> & { target: unknown } {
  const target =
    draft.kind === "noop"
      ? { kind: "noop" }
      : { kind: "http", method: draft.method, url: draft.url, ...bodyField(draft.body) };
  return {
    name: draft.name || null,
    schedule: scheduleOf(draft),
    target,
    queue: draft.queue || "default",
    tags: draft.tags
      .split(",")
      .map((tag) => tag.trim())
      .filter(Boolean),
    retry: { max_attempts: Number(draft.attempts) || 1 },
    overlap: draft.overlap,
    misfire: draft.misfire,
  };
}

function bodyField(text: string): { body?: unknown } {
  if (!text.trim()) return {};
  try {
    return { body: JSON.parse(text) };
  } catch {
    return { body: text };
  }
}

/** Only what was changed, so that what this form does not show stays as it is. */
function changesOf(job: Job, body: Record<string, unknown> & { target: unknown }): Record<string, unknown> {
  const before = bodyOf(draftOf(job));
  const changed = Object.entries(body).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  );
  const changes = Object.fromEntries(changed);
  if (changes.retry) changes.retry = { ...job.retry, ...(changes.retry as object) };
  if (changes.misfire) changes.misfire = { ...job.misfire, policy: changes.misfire };
  if (changes.target && job.target.kind === (changes.target as { kind: string }).kind)
    changes.target = { ...job.target, ...(changes.target as object) };
  return changes;
}

function draftOf(job: Job): Draft {
  const schedule = job.schedule as unknown as Record<string, string | undefined>;
  const target = job.target as { kind: "http" | "noop"; method?: string; url?: string; body?: unknown };
  const when: When = schedule.cron ? "cron" : schedule.every ? "every" : "at";
  const body =
    target.body === undefined || target.body === null
      ? ""
      : typeof target.body === "string"
        ? target.body
        : JSON.stringify(target.body, null, 2);
  return {
    ...FRESH,
    name: job.name ?? "",
    when,
    every: schedule.every ?? FRESH.every,
    cron: schedule.cron ?? FRESH.cron,
    at: schedule.at ? localInput(schedule.at) : "",
    zone: schedule.time_zone ?? "UTC",
    dst: schedule.dst ?? "cron",
    jitter: schedule.jitter ?? "",
    kind: target.kind,
    method: target.method ?? "POST",
    url: target.url ?? "",
    body,
    queue: job.queue,
    tags: job.tags.join(", "),
    attempts: String(job.retry.max_attempts),
    overlap: job.overlap,
    misfire: job.misfire.policy,
  };
}

function localInput(text: string): string {
  const at = new Date(text);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
