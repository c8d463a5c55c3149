/** One job: what it is, what it did, what it will do, and how to stop or start it. */
import { useState } from "preact/hooks";
import { post, refresh, remove } from "../api.ts";
import { useData } from "../hooks.ts";
import { asCurl, Copy } from "../parts/copy.tsx";
import { attempt, Dialog, say } from "../parts/dialog.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Empty, Part } from "../parts/notices.tsx";
import { RunsPlot } from "../plots/runs.tsx";
import { address, alter, go, place } from "../router.ts";
import { mayWrite } from "../session.ts";
import { day, moment } from "../time.ts";
import type { Execution, ExecutionPage, Job, PauseAnswer, Preview, ResumeAnswer } from "../types.ts";
import { ExecutionRows } from "./executions.tsx";
import { LetItFail } from "./first_run.tsx";

export function JobDetail({ id }: { id: string }) {
  const job = useData<Job>(`/jobs/${id}`);
  const runs = useData<ExecutionPage>(`/jobs/${id}/executions?limit=100`);
  const coming = useData<Preview>(`/jobs/${id}/upcoming?limit=10`);
  const tab = place.value.query.get("tab") ?? "runs";
  const again = () => {
    job.again();
    runs.again();
    coming.again();
  };
  return (
    <Part of={job}>
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
          <LetItFail job={data} />
          <div class="tabs" role="tablist">
            {["runs", "upcoming", "definition"].map((name) => (
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
          {tab === "runs" && (
            <section class="card list">
              <Part of={runs}>{(page) => <Runs page={page} job={data} />}</Part>
            </section>
          )}
          {tab === "upcoming" && (
            <section class="card">
              <Part of={coming}>{(preview) => <Coming preview={preview} />}</Part>
            </section>
          )}
          {tab === "definition" && (
            <section class="card">
              <pre>{JSON.stringify(definitionOf(data), null, 2)}</pre>
              <Copy curl={asCurl("POST", "/jobs", definitionOf(data))} />
            </section>
          )}
        </>
      )}
    </Part>
  );
}

function Runs({ page, job }: { page: ExecutionPage; job: Job }) {
  if (!page.items.length) {
    return (
      <Empty title="It has not run yet">
        <p>{job.next_fire_at ? `Its next fire is ${moment(job.next_fire_at)}.` : "It has no next fire."}</p>
      </Empty>
    );
  }
  return (
    <>
      <RunsPlot runs={page.items} />
      <ExecutionRows
        items={page.items.filter((item) => item.state !== "queued" || item.attempt > 1)}
        withJob={false}
      />
    </>
  );
}

function Facts({ job, words }: { job: Job; words: string }) {
  const target = job.target as { kind: string; method?: string; url?: string };
  return (
    <dl class="facts">
      <dt>When</dt>
      <dd>{words || "–"}</dd>
      <dt>Next</dt>
      <dd>
        {job.state === "paused" ? (
          <>
            held{job.state_reason ? `: ${job.state_reason}` : ""}
            {job.paused_until && (
              <>
                {" "}
                until <Time at={job.paused_until} />
              </>
            )}
          </>
        ) : (
          <>
            <Time at={job.next_fire_at} far /> {job.next_fire_at && <small>{moment(job.next_fire_at)}</small>}
          </>
        )}
      </dd>
      <dt>What</dt>
      <dd class="break">
        {target.kind === "http" ? `${target.method ?? "POST"} ${target.url}` : "nothing (noop)"}
      </dd>
      <dt>Policies</dt>
      <dd>
        retry {job.retry.max_attempts} × · overlap {job.overlap} · misfire {job.misfire.policy} · queue{" "}
        {job.queue}, priority {job.priority}
      </dd>
      {job.description && (
        <>
          <dt>About</dt>
          <dd>{job.description}</dd>
        </>
      )}
    </dl>
  );
}

type Asked = "pause" | "resume" | "cancel" | "delete" | null;

function Actions({ job, again }: { job: Job; again: () => void }) {
  const [asked, ask] = useState<Asked>(null);
  const over = job.state === "completed" || job.state === "cancelled";
  const run = async () => {
    const made = await attempt(post<Execution>(`/jobs/${job.id}/run`), "Fired.");
    if (made) go(`/executions/${made.id}`);
  };
  const skip = async () => {
    await attempt(
      post<{ skipped: string }>(`/jobs/${job.id}/skip-next`),
      (answer) => `Skips ${moment(answer.skipped)}.`,
    );
    again();
  };
  return (
    <div class="actions">
      {!over && (
        <button type="button" onClick={() => void run()}>
          Run now
        </button>
      )}
      {job.state === "active" && job.kind === "recurring" && (
        <>
          <button type="button" onClick={() => ask("pause")}>
            Pause…
          </button>
          <button type="button" onClick={() => void skip()}>
            Skip next
          </button>
        </>
      )}
      {job.state === "paused" && (
        <button type="button" class="primary" onClick={() => ask("resume")}>
          Resume…
        </button>
      )}
      {!over && (
        <a class="button" href={address(`/jobs/${job.id}/edit`)}>
          Edit
        </a>
      )}
      {!over && (
        <button type="button" onClick={() => ask("cancel")}>
          Cancel…
        </button>
      )}
      <button type="button" class="danger" onClick={() => ask("delete")}>
        Delete…
      </button>
      {asked === "pause" && <Pause job={job} close={() => ask(null)} again={again} />}
      {asked === "resume" && <Resume job={job} close={() => ask(null)} again={again} />}
      {asked === "cancel" && (
        <Dialog
          title="Cancel this job?"
          action="Cancel the job"
          danger
          close={() => ask(null)}
          act={async () => {
            await post(`/jobs/${job.id}/cancel`);
            say("Cancelled. Nothing of it starts any more.");
            again();
          }}
        >
          <p>
            Nothing of it starts any more. What is running is asked to stop. It stays in the list, and so does
            its history.
          </p>
        </Dialog>
      )}
      {asked === "delete" && (
        <Dialog
          title="Delete this job?"
          action="Delete"
          danger
          close={() => ask(null)}
          act={async () => {
            await remove(`/jobs/${job.id}`);
            say("Deleted. Its history stays.");
            go("/jobs");
          }}
        >
          <p>
            <b>{job.name ?? job.id}</b> is removed, and with it what it has planned. Its history stays.
          </p>
        </Dialog>
      )}
    </div>
  );
}

function Pause({ job, close, again }: { job: Job; close: () => void; again: () => void }) {
  const [reason, tell] = useState("");
  const act = async () => {
    const answer = await post<PauseAnswer>(`/jobs/${job.id}/pause`, reason ? { reason } : {});
    say(`Paused; ${answer.held} planned executions are held.`);
    again();
  };
  return (
    <Dialog title="Pause this job" action="Pause" close={close} act={act}>
      <p>Its fires are held until it is resumed. What is running goes on.</p>
      <label>
        Why? Others will read it.
        <input value={reason} maxLength={500} onInput={(event) => tell(event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}

/** What resuming will do, from the API's own dry run. */
function Resume({ job, close, again }: { job: Job; close: () => void; again: () => void }) {
  const [dry, learn] = useState<ResumeAnswer | null>(null);
  if (!dry) void post<ResumeAnswer>(`/jobs/${job.id}/resume`, { dry_run: true }).then(learn);
  const act = async () => {
    const done = await post<ResumeAnswer>(`/jobs/${job.id}/resume`);
    say(`Resumed: runs ${done.fired}, skips ${done.skipped}.`);
    again();
  };
  const first = dry?.fire_times.slice(0, 3).map(moment).join(", ");
  return (
    <Dialog title="Resume this job" action="Resume" close={close} act={act}>
      {dry ? (
        <p class="consequence">
          runs <b>{dry.fired}</b> now{first ? ` (${first}${dry.fired > 3 ? " …" : ""})` : ""}, skips{" "}
          <b>{dry.skipped}</b>
        </p>
      ) : (
        <p>Looking at what it would do …</p>
      )}
      <p>
        That is what its misfire policy <code>{job.misfire.policy}</code> says.
      </p>
    </Dialog>
  );
}

function Coming({ preview }: { preview: Preview }) {
  return (
    <>
      <ol class="coming-list">
        {preview.fires.map((fire) => (
          <li key={fire.at}>
            <time dateTime={fire.at}>{fire.local.slice(0, 19).replace("T", " ")}</time>
            <span>{day(Date.parse(fire.at))}</span>
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

/** What somebody else would need to create the same job. */
export function definitionOf(job: Job): Record<string, unknown> {
  const {
    name,
    description,
    schedule,
    target,
    queue,
    priority,
    tags,
    timeout,
    start_within,
    retry,
    misfire,
    overlap,
    limit,
    precision,
  } = job;
  return {
    name,
    description,
    schedule,
    target,
    queue,
    priority,
    tags,
    timeout,
    start_within,
    retry,
    misfire,
    overlap,
    limit,
    precision,
  };
}

export const reload = (id: string) => refresh(`/jobs/${id}`);
