/** All jobs: found by part of a name, narrowed by filters, acted on by rows. */
import { useLayoutEffect, useState } from "preact/hooks";
import { post, query } from "../api.ts";
import { useData } from "../hooks.ts";
import { bind, focused } from "../keyboard.ts";
import { Acting } from "../parts/acting.tsx";
import { asCli, asCurl, asOptions, Copy } from "../parts/copy.tsx";
import { States } from "../parts/counts.tsx";
import { attempt } from "../parts/dialog.tsx";
import { Chips, Choose, given, isNarrowed, LookFurther, NoMatch, Pages, Toggle } from "../parts/filters.tsx";
import { Recent, State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { Qualified, useQueues } from "../parts/qualified.tsx";
import { type Column, Table, useChosen } from "../parts/table.tsx";
import { address, alter, go } from "../router.ts";
import { mayWrite } from "../session.ts";
import { duration, moment } from "../time.ts";
import type { Do, Job, JobPage } from "../types.ts";
import { Pause, Resume } from "./job_actions.tsx";

const STATES = ["active", "paused", "completed", "cancelled"];
const KINDS = ["recurring", "once"];
const FILTERS = ["name", "state", "kind", "queue", "tag", "overdue"];

export function Jobs() {
  const asked = given([...FILTERS, "sort", "cursor"]);
  const page = useData<JobPage>(`/jobs${query({ ...asked, limit: 50, with: "recent" })}`);
  return (
    <>
      <div class="head">
        <h1>Jobs</h1>
        {mayWrite.value && (
          <a class="button primary" href={address("/jobs/new")}>
            New job
          </a>
        )}
      </div>
      <States path="/jobs" states={STATES} asked={asked} />
      <div class="filters">
        <Qualified
          label="Find jobs"
          hint="part of a name, queue:… tag:…"
          words="name"
          values={{ state: STATES, kind: KINDS, queue: useQueues(), tag: [] }}
        />
        <Choose name="kind" label="kind" options={KINDS} />
        <Toggle name="overdue" label="did not run" />
        <Choose name="sort" label="sort" options={["name", "next_fire"]} otherwise="newest first" />
      </div>
      <Chips names={FILTERS} />
      <section class="card list">
        <Part of={page}>
          {(data) =>
            data.items.length ? <Rows page={data} again={page.again} /> : <NoJobs next={data.next_cursor} />
          }
        </Part>
      </section>
      <div class="foot">
        <Copy
          curl={asCurl("GET", `/jobs${query(asked)}`)}
          cli={asCli("jobs", "list", ...asOptions(given([...FILTERS, "sort"])))}
        />
        <Pages next={page.data?.next_cursor ?? null} />
      </div>
    </>
  );
}

const OVERDUE = "Which jobs did not run changes by the second: select them one by one.";
const ACTIONS: [Do, string][] = [
  ["run", "Run now…"],
  ["pause", "Pause…"],
  ["resume", "Resume…"],
  ["cancel_queued", "Cancel queued…"],
  ["delete", "Delete…"],
];

function Rows({ page, again }: { page: JobPage; again: () => void }) {
  const chosen = useChosen();
  const [held, hold] = useState<Job | null>(null);
  useRowKeys(page.items, hold);
  const { tag, overdue, ...rest } = given(FILTERS);
  return (
    <>
      {mayWrite.value && (
        <Acting
          of="jobs"
          chosen={chosen}
          shown={page.items.length}
          more={page.next_cursor !== null}
          where={overdue ? OVERDUE : { ...rest, tags: tag ? [tag] : undefined }}
          actions={ACTIONS}
        />
      )}
      <Table
        label="Jobs"
        rows={page.items}
        columns={COLUMNS}
        id={(job) => job.id}
        href={(job) => address(`/jobs/${job.id}`)}
        chosen={mayWrite.value ? chosen : undefined}
      />
      {held &&
        (held.state === "paused" ? (
          <Resume job={held} close={() => hold(null)} again={again} />
        ) : (
          <Pause job={held} close={() => hold(null)} again={again} />
        ))}
    </>
  );
}

/** `r`, `s` and `e` for the row that has the focus. */
function useRowKeys(jobs: Job[], hold: (job: Job) => void): void {
  useLayoutEffect(() => {
    const row = () => jobs.find((job) => job.id === focused()?.dataset.id);
    const acting = (act: (job: Job) => void) => () => {
      const job = row();
      if (job && mayWrite.value) act(job);
    };
    return bind({
      r: acting((job) => void attempt(post(`/jobs/${job.id}/run`), `${job.name ?? job.id} fired.`)),
      s: acting((job) => job.kind === "recurring" && ["active", "paused"].includes(job.state) && hold(job)),
      e: () => {
        const last = row()?.recent?.[0];
        if (last) go(`/executions/${last.id}`);
      },
    });
  }, [jobs]);
}

const COLUMNS: Column<Job>[] = [
  { name: "Name", kind: "name", show: (job) => <Name job={job} /> },
  {
    name: "Schedule",
    kind: "words",
    show: (job) => <span title={JSON.stringify(job.schedule)}>{wordsOf(job)}</span>,
  },
  { name: "Next", show: (job) => <Next job={job} /> },
  { name: "Last 20", show: (job) => <Recent fires={job.recent ?? []} /> },
  { name: "Last", show: (job) => <Last job={job} /> },
  { name: "Queue", show: (job) => job.queue },
];

const wordsOf = (job: Job) =>
  job.schedule.at ? `once, ${moment(String(job.schedule.at))}` : job.schedule_words;

function Name({ job }: { job: Job }) {
  return (
    <>
      <a href={address(`/jobs/${job.id}`)}>{job.name ?? <code>{job.id.slice(0, 14)}…</code>}</a>
      {job.state !== "active" && <State state={job.state} />}
      {job.tags.map((tag) => (
        <button key={tag} type="button" class="tag" onClick={() => alter({ tag })}>
          {tag}
        </button>
      ))}
    </>
  );
}

function Next({ job }: { job: Job }) {
  if (job.state !== "paused") return <Time at={job.next_fire_at} far />;
  const words = [job.state_reason, job.paused_until && `until ${moment(job.paused_until)}`];
  return <span title={words.filter(Boolean).join(", ")}>held</span>;
}

function Last({ job }: { job: Job }) {
  const last = job.recent?.[0];
  if (!last) return <span class="none">–</span>;
  return (
    <a class={`s-${last.state}`} href={address(`/executions/${last.id}`)} title={last.reason ?? last.state}>
      {last.run_ms === null || last.state !== "succeeded" ? last.state : duration(last.run_ms)}
    </a>
  );
}

function NoJobs({ next }: { next: string | null }) {
  if (next) return <LookFurther next={next} />;
  if (isNarrowed(FILTERS)) return <NoMatch what="job" names={FILTERS} />;
  return (
    <Empty title="No jobs yet">
      <p>A job says what is called and when: once, every so often, or by cron.</p>
      {mayWrite.value && (
        <button type="button" class="primary" onClick={() => go("/jobs/new")}>
          Create a job
        </button>
      )}
    </Empty>
  );
}
