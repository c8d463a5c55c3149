/** One execution: its life on one axis, why it is where it is, and every attempt with what was answered. */
import { useLayoutEffect, useState } from "preact/hooks";
import { post, resource } from "../api.ts";
import { useData } from "../hooks.ts";
import { bind } from "../keyboard.ts";
import { asCli, asCurl, Copied, Copy } from "../parts/copy.tsx";
import { attempt } from "../parts/dialog.tsx";
import { Body } from "../parts/json.tsx";
import { Logs } from "../parts/logs.tsx";
import { State, Time } from "../parts/marks.tsx";
import { Part } from "../parts/notices.tsx";
import { Progressed } from "../parts/progress.tsx";
import { Gantt } from "../plots/gantt.tsx";
import { address, go, linked } from "../router.ts";
import { mayWrite } from "../session.ts";
import { givenBy, whatItDoes } from "../target.ts";
import { duration } from "../time.ts";
import type { AttemptView, Execution, Explanation, Job } from "../types.ts";

const FINAL = ["succeeded", "dead", "skipped", "cancelled", "expired"];

const LOOK_MS = 1000;

export function ExecutionDetail({ id }: { id: string }) {
  const known = resource<Explanation>(`/executions/${id}/explain`).value.data?.execution;
  const found = useData<Explanation>(
    `/executions/${id}/explain`,
    true,
    known && runs(known) && isTask(known) ? LOOK_MS : undefined,
  );
  useLayoutEffect(() => bind({ e: () => document.querySelector<HTMLElement>(".why")?.focus() }), []);
  return (
    <Part of={found} title="Execution">
      {({ execution, explanation, steps }) => (
        <>
          <p class="crumbs">
            <a href={address("/executions")}>Executions</a> ›{" "}
            <a href={address(`/jobs/${execution.job_id}`)}>{execution.job_name ?? execution.job_id}</a>
          </p>
          <div class="head wrap">
            <h1>
              {execution.job_name ?? "Execution"} <State state={execution.state} />
            </h1>
            {mayWrite.value && <Actions execution={execution} again={found.again} />}
          </div>
          <dl class="facts">
            <dt>Fire time</dt>
            <dd>
              <Time at={execution.fire_at} /> · <Time at={execution.fire_at} far />
            </dd>
            <dt>Late</dt>
            <dd>{execution.lag_ms === null ? "–" : duration(Math.max(0, execution.lag_ms))}</dd>
            <dt>Cause</dt>
            <dd>
              {execution.cause} · queue {execution.queue} · attempt {execution.attempt}
              {execution.rerun_of && (
                <>
                  {" "}
                  · again <a href={address(`/executions/${execution.rerun_of}`)}>an earlier one</a>
                </>
              )}
            </dd>
            {execution.progress && (
              <>
                <dt>Progress</dt>
                <dd>
                  <Progressed of={execution.progress} />
                </dd>
              </>
            )}
            <dt>Id</dt>
            <dd class="break">
              <Copied text={execution.id} name="the id" />
            </dd>
          </dl>
          <div class="split">
            <section class="card">
              <h2>What happened</h2>
              <Gantt execution={execution} />
              <Sent job={execution.job_id} />
              {execution.attempts.map((one) => (
                <Attempt key={one.number} attempt={one} />
              ))}
              {!execution.attempts.length && (
                <p class="calm">No attempt was made{execution.reason ? `: ${execution.reason}` : " yet"}.</p>
              )}
              {isTask(execution) && (
                <>
                  {execution.state === "succeeded" && <Result id={execution.id} />}
                  <h3>Log</h3>
                  <Logs id={execution.id} live={runs(execution)} />
                </>
              )}
            </section>
            <section class="card why" tabIndex={-1}>
              <h2>Why</h2>
              <ol>
                {explanation.map((sentence) => (
                  <li key={sentence}>
                    <Sentence words={sentence} link={steps.find((step) => step.words === sentence)?.link} />
                  </li>
                ))}
              </ol>
              <p class="hint">
                <a href={address("/words", { of: wordOf(execution) })}>What “{wordOf(execution)}” means</a>
              </p>
            </section>
          </div>
          <div class="foot">
            <Copy
              curl={asCurl("GET", `/executions/${execution.id}`)}
              cli={asCli("executions", "show", execution.id)}
            />
            {mayWrite.value &&
              verbsOf(execution.state).map((verb) => (
                <Copy
                  key={verb}
                  what={WORDS[verb]}
                  curl={asCurl("POST", `/executions/${execution.id}/${verb}`)}
                  cli={asCli("executions", verb, execution.id)}
                />
              ))}
          </div>
        </>
      )}
    </Part>
  );
}

/** Whether a remote worker ran it: only tasks log, progress and return something. */
const isTask = ({ attempts }: Execution) => attempts.some((one) => one.worker !== null);
const runs = ({ state }: Execution) => !FINAL.includes(state);

/** What a task returned: told of one execution only, for it may be large. */
function Result({ id }: { id: string }) {
  const found = useData<Execution>(`/executions/${id}`, false);
  const last = found.data?.attempts.at(-1);
  if (!last || last.result === null || last.result === undefined) return null;
  return (
    <>
      <h3>Result</h3>
      <Body of={last.result} />
    </>
  );
}

/** A step of the way, as a link to what it waited for or ran into. */
function Sentence({ words, link }: { words: string; link: string | null | undefined }) {
  return link ? <a href={linked(link)}>{words}</a> : <span>{words}</span>;
}

/** The word that a reader may not know: why it was skipped, else its state. */
const wordOf = ({ state, reason }: Execution) => (state === "skipped" && reason ? reason : state);

function Actions({ execution, again }: { execution: Execution; again: () => void }) {
  const { id, state } = execution;
  const act = async (verb: Verb, words: string) => {
    const done = await attempt(post<Execution>(`/executions/${id}/${verb}`), (answer) =>
      answer.cancel_requested ? "It is running and was asked to stop." : words,
    );
    if (done && done.id !== id) go(`/executions/${done.id}`);
    else again();
  };
  return (
    <div class="actions">
      {verbsOf(state).map((verb) => (
        <button key={verb} type="button" class={CLASSES[verb]} onClick={() => void act(verb, DONE[verb])}>
          {WORDS[verb]}
        </button>
      ))}
    </div>
  );
}

type Verb = "retry" | "rerun" | "cancel";
const WORDS: Record<Verb, string> = { retry: "Retry", rerun: "Run again", cancel: "Cancel" };
const CLASSES: Record<Verb, string> = { retry: "primary", rerun: "", cancel: "danger" };
const DONE: Record<Verb, string> = {
  retry: "It gets another round of attempts.",
  rerun: "Runs again, as a new execution.",
  cancel: "Cancelled: it does not start.",
};

/** What can be done to an execution in a state. */
function verbsOf(state: string): Verb[] {
  if (!FINAL.includes(state)) return ["cancel"];
  return ["dead", "expired", "cancelled"].includes(state) ? ["retry", "rerun"] : ["rerun"];
}

/** What the job calls and with what. The job is asked for apart: it may have been deleted meanwhile. */
function Sent({ job }: { job: string }) {
  const { data } = useData<Job>(`/jobs/${job}`, false);
  const [open, look] = useState(false);
  if (!data) return null;
  return (
    <details class="attempt" onToggle={(event) => look(event.currentTarget.open)}>
      <summary>
        <b>What is called</b> <span class="grow break">{whatItDoes(data.target)}</span>
        <small>as the job says now</small>
      </summary>
      {open && <Given of={givenBy(data.target)} />}
    </details>
  );
}

const Given = ({ of }: { of: unknown }) =>
  of === null ? <p class="calm">Nothing is given to it.</p> : <Body of={of} />;

/** Who made an attempt: a remote worker, else a node. */
function by({ worker, node }: AttemptView) {
  if (worker) return <a href={address("/workers", { all: "true" })}>· {worker.slice(0, 14)}…</a>;
  return node ? `· node ${node}` : "";
}

export function Attempt({ attempt: one }: { attempt: AttemptView }) {
  const detail = one.detail as { status?: number; headers?: Record<string, string>; body?: unknown } | null;
  const verdict = one.verdict ?? "running";
  const mark = verdict === "succeeded" || verdict === "running" || verdict === "cancelled" ? verdict : "dead";
  return (
    <details class="attempt" open={one.verdict !== "succeeded"}>
      <summary>
        <b>#{one.number}</b> <State state={mark} word={verdict.replace("_", " ")} />
        <span class="grow">{one.error ?? (detail?.status ? `answered ${detail.status}` : "")}</span>
        <small>
          {one.duration_ms === null ? "" : duration(one.duration_ms)} {by(one)}
        </small>
      </summary>
      {detail?.headers && Object.keys(detail.headers).length > 0 && (
        <dl class="headers">
          {Object.entries(detail.headers).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {detail?.body !== undefined && detail.body !== "" && <Body of={detail.body} />}
    </details>
  );
}
