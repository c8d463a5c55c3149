/** One job: what it is, what it did, what it will do, and how to stop or start it. */
import { useEffect, useLayoutEffect } from "preact/hooks";
import { query } from "../api.ts";
import { useData } from "../hooks.ts";
import { bind } from "../keyboard.ts";
import { asCli, asCurl, Copied, Copy } from "../parts/copy.tsx";
import { Json } from "../parts/json.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { RunsPlot } from "../plots/runs.tsx";
import { address, alter, go, param, part } from "../router.ts";
import { mayWrite } from "../session.ts";
import { whatItDoes } from "../target.ts";
import { clock, count, day, dayOf, jobZone, moment, whole, zoneName } from "../time.ts";
import type { AuditPage, BackfillPage, ExecutionPage, Job, Preview } from "../types.ts";
import { Entries } from "./audit.tsx";
import { ExecutionRows } from "./executions.tsx";
import { Offers } from "./first_run.tsx";
import { Actions } from "./job_actions.tsx";
import { Backfills } from "./job_backfills.tsx";
import { CalendarTab } from "./job_calendar.tsx";

/** How many of its last fires a job tells. */
const MOST_RECENT = 20;
const TABS = ["runs", "calendar", "upcoming", "definition", "changes"];

export function JobDetail({ id }: { id: string }) {
  const job = useData<Job>(`/jobs/${id}?with=recent`);
  const coming = useData<Preview>(`/jobs/${id}/upcoming?limit=10`);
  const tab = param("tab", "runs");
  useZoneOf(job.data);
  const last = job.data?.recent?.[0]?.id;
  useLayoutEffect(() => bind({ e: () => last && go(`/executions/${last}`) }), [last]);
  const again = () => {
    job.again();
    coming.again();
  };
  return (
    <Part of={job} title="Job">
      {(data) => (
        <>
          <p class="crumbs">
            <a href={address("/jobs")}>Jobs</a>
          </p>
          <div class="head wrap">
            <h1>
              {data.name ?? data.id} <State state={data.state} />
            </h1>
            {mayWrite.value && <Actions job={data} again={again} />}
          </div>
          <Facts job={data} words={coming.data?.explanation ?? ""} />
          <div class="tabs" role="tablist">
            {TABS.map((name) => (
              <button
                key={name}
                type="button"
                role="tab"
                aria-selected={tab === name}
                onClick={() => alter({ tab: name }, true)}
              >
                {name}
              </button>
            ))}
          </div>
          {data.recent?.some((fire) => fire.state === "succeeded") && <Offers job={data} />}
          {tab === "runs" && <Runs job={data} />}
          {tab === "calendar" && <CalendarTab job={data} />}
          {tab === "upcoming" && (
            <section class="card">
              <Part of={coming}>
                {(preview) => <Coming preview={preview} zone={data.schedule.time_zone} />}
              </Part>
            </section>
          )}
          {tab === "definition" && <Definition job={data} />}
          {tab === "changes" && <Changes id={id} />}
        </>
      )}
    </Part>
  );
}

/** Let the zone switch offer the zone of this job, for as long as it is looked at. */
function useZoneOf(job: Job | null): void {
  const zone = job?.schedule.time_zone ?? "";
  useEffect(() => {
    jobZone.value = zone;
    return () => {
      jobZone.value = "";
    };
  }, [zone]);
}

function Runs({ job }: { job: Job }) {
  const runs = useData<ExecutionPage>(`/jobs/${job.id}/executions?limit=100`);
  const backfills = useData<BackfillPage>(`/jobs/${job.id}/backfills?limit=5`);
  return (
    <>
      {backfills.data && backfills.data.items.length > 0 && (
        <Backfills items={backfills.data.items} again={backfills.again} />
      )}
      <section class="card list">
        <Part of={runs}>
          {(page) =>
            page.items.length ? (
              <>
                <RunsPlot runs={page.items} />
                <ExecutionRows
                  items={page.items.filter((item) => item.state !== "queued" || item.attempt > 1)}
                  withJob={false}
                />
              </>
            ) : (
              <Empty title="It has not run yet">
                <p>{whenItRuns(job)}</p>
              </Empty>
            )
          }
        </Part>
      </section>
    </>
  );
}

function whenItRuns(job: Job): string {
  if (job.state === "paused")
    return `It is paused${job.paused_until ? ` until ${moment(job.paused_until)}` : ""}: nothing fires before it is resumed.`;
  return job.next_fire_at ? `Its next fire is ${moment(job.next_fire_at)}.` : "It has no next fire.";
}

function Facts({ job, words }: { job: Job; words: string }) {
  return (
    <dl class="facts">
      <dt>When</dt>
      <dd>{words || "–"}</dd>
      <dt>Next</dt>
      <dd>{job.state === "paused" ? <Held job={job} /> : <Next job={job} />}</dd>
      <dt>What</dt>
      <dd class="break">{whatItDoes(job.target)}</dd>
      <dt>Policies</dt>
      <dd>
        retry {job.retry.max_attempts} × · overlap {job.overlap} · misfire {job.misfire.policy} · queue{" "}
        <a href={address(`/queues/${part(job.queue)}`)}>{job.queue}</a>, priority {job.priority}
        {job.limit && ` · limit key ${job.limit.key}`}
        {job.pause_after && ` · pauses after ${job.pause_after} failures in a row`}
      </dd>
      {(job.consecutive_failures ?? 0) > 0 && <Failing job={job} />}
      {job.managed_by && (
        <>
          <dt>Declared</dt>
          <dd>
            by <b>{job.managed_by}</b>: it is changed where it is declared; to pause, run or backfill it is
            yours
          </dd>
        </>
      )}
      {job.description && (
        <>
          <dt>About</dt>
          <dd>{job.description}</dd>
        </>
      )}
      {job.tags.length > 0 && (
        <>
          <dt>Tags</dt>
          <dd>
            {job.tags.map((tag) => (
              <a key={tag} class="tag" href={address("/jobs", { tag })}>
                {tag}
              </a>
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}

/** That it fails, since how many fires, and with what: the first thing to know about a job that does. */
function Failing({ job }: { job: Job }) {
  const times = job.consecutive_failures ?? 0;
  return (
    <>
      <dt>Fails</dt>
      <dd>
        <a class="s-dead" href={address("/dead-letters", { job: job.id })}>
          {times === 1 ? "the last time" : `the last ${count(times, times >= MOST_RECENT)} times`}
          {job.last_error && `: ${job.last_error}`}
        </a>
      </dd>
    </>
  );
}

function Held({ job }: { job: Job }) {
  return (
    <>
      held
      {job.paused_until && (
        <>
          {" "}
          until <Time at={job.paused_until} />
        </>
      )}
      {job.state_reason && `: ${job.state_reason}`}
    </>
  );
}

function Next({ job }: { job: Job }) {
  return (
    <>
      <Time at={job.next_fire_at} far /> {job.next_fire_at && <small>{moment(job.next_fire_at)}</small>}
    </>
  );
}

/** The next fires on the clock that its schedule goes by; where it names none, on the one that the page shows. */
function Coming({ preview, zone }: { preview: Preview; zone: string | null | undefined }) {
  if (!preview.fires.length) return <p class="calm">It has no further fires.</p>;
  return (
    <>
      {zone && zone !== zoneName() && <p class="hint">In {zone}, the zone of its schedule.</p>}
      <ol class="coming-list">
        {preview.fires.map((fire) => (
          <li key={fire.at}>
            <time dateTime={fire.at} title={whole(fire.at)}>
              {zone ? fire.local.slice(11, 19) : clock(Date.parse(fire.at))}
            </time>
            <span>{zone ? dayOf(fire.local) : day(Date.parse(fire.at))}</span>
            <Time at={fire.at} far />
          </li>
        ))}
      </ol>
      {preview.warnings.map((warning) => (
        <p key={warning} class="warning">
          {warning}
        </p>
      ))}
    </>
  );
}

function Definition({ job }: { job: Job }) {
  const definition = definitionOf(job);
  return (
    <section class="card">
      <div class="head">
        <p class="hint">
          <Copied text={job.id} name="the id" /> · version {job.version} · created{" "}
          <Time at={job.created_at} far />, changed <Time at={job.updated_at} far />
        </p>
        <Copy curl={asCurl("POST", "/jobs", definition)} cli={asCli("jobs", "show", job.id)} />
      </div>
      <Json value={definition} />
    </section>
  );
}

/** What was done to it: its slice of the audit log. */
function Changes({ id }: { id: string }) {
  const trail = useData<AuditPage>(`/audit${query({ object: id, limit: 50 })}`);
  return (
    <section class="card list">
      <Part of={trail}>{(page) => <Entries items={page.items} withObject={false} />}</Part>
    </section>
  );
}

const DEFINED = [
  "name", "description", "schedule", "target", "queue", "priority", "tags", "timeout", "start_within", "retry",
  "misfire", "overlap", "limit", "precision", "pause_after",
] as const; // biome-ignore format: a table

/** What another user would need to create the same job: its fields, without those that say nothing. */
export function definitionOf(job: Job): Record<string, unknown> {
  return Object.fromEntries(
    DEFINED.map((name) => [name, without(job[name])]).filter(
      ([, value]) => value !== null && !(Array.isArray(value) && !value.length),
    ),
  );
}

function without(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null));
}
