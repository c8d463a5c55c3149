/** Create and edit, with the consequence beside the form. */
import { useEffect, useState } from "preact/hooks";
import { base, get, patch, post, Refused } from "../api.ts";
import type { Entry } from "../crontab.ts";
import {
  bodyOf,
  changesOf,
  type Draft,
  draftOf,
  FRESH,
  headersNameSecrets,
  newOf,
  optionsOf,
  type When,
} from "../draft.ts";
import { asCli, asCurl, Copy } from "../parts/copy.tsx";
import { Diff } from "../parts/diff.tsx";
import { Skeleton, Trouble } from "../parts/notices.tsx";
import { pasted } from "../pasted.ts";
import { address, go, param } from "../router.ts";
import { session } from "../session.ts";
import type { Job, TrialAnswer } from "../types.ts";
import {
  Field,
  MessageFields,
  PolicyFields,
  TargetFields,
  TaskFields,
  WhenFields,
} from "./editor_fields.tsx";
import { PreviewCard, usePreview } from "./editor_preview.tsx";
import { Attempt } from "./execution.tsx";
import { definitionOf } from "./job.tsx";

const WHENS: Record<When, string> = {
  every: "every",
  cron: "cron",
  at: "once at",
  in: "once in",
  several: "several",
};

/** A new job, a copy of the one that `?of=` names, or an edit of the one with the id. */
export function Editor({ id }: { id?: string }) {
  const of = id ?? param("of");
  const [job, load] = useState<Job | null>(null);
  const [error, fail] = useState<Refused | null>(null);
  useEffect(() => {
    if (of) get<Job>(`/jobs/${of}`).then(load).catch(fail);
  }, [of]);
  if (error) return <Trouble error={error} />;
  if (of && !job) return <Skeleton />;
  return <Form job={id ? job : null} copied={id ? null : job} />;
}

function begun(job: Job | null, copied: Job | null, entry: Entry | null): Draft {
  if (job) return draftOf(job);
  if (copied) return { ...draftOf(copied), name: copied.name ? `${copied.name}-copy` : "" };
  if (entry) return { ...FRESH, ...entry.draft };
  return { ...FRESH, url: session.value?.echo ? `${location.origin}${base}/v1/echo` : "" };
}

/** What was pasted is for one form. */
function taken(): Entry | null {
  const entry = pasted.peek();
  pasted.value = null;
  return entry;
}

function Form({ job: loaded, copied }: { job: Job | null; copied: Job | null }) {
  const [job, rebase] = useState(loaded);
  const [entry] = useState(taken);
  const [draft, change] = useState<Draft>(() => begun(loaded, copied, entry));
  const [error, fail] = useState<Refused | null>(null);
  const [theirs, meet] = useState<Job | null>(null);
  const [tried, tell] = useState<Tried>(null);
  const previewed = usePreview(draft);
  const set = (changes: Partial<Draft>) => change({ ...draft, ...changes });
  const body = bodyOf(draft);
  const field = error?.problem.field ?? "";
  const save = async (event: Event) => {
    event.preventDefault();
    fail(null);
    try {
      const saved = job
        ? await patch<Job>(`/jobs/${job.id}`, changesOf(job, body), job.version)
        : await post<Job>("/jobs", newOf(draft));
      go(`/jobs/${saved.id}`);
    } catch (caught) {
      if (!(caught instanceof Refused)) throw caught;
      fail(caught);
      if (job && caught.problem.status === 412) meet(await get<Job>(`/jobs/${job.id}`));
    }
  };
  const keepMine = () => {
    if (job && theirs) change({ ...draftOf(theirs), ...mine(draftOf(job), draft) });
    rebase(theirs);
    meet(null);
    fail(null);
  };
  return (
    <>
      <Crumbs job={job} />
      <h1>{job ? "Edit" : "New job"}</h1>
      <form class="editor" onSubmit={save}>
        <div class="card">
          {entry && <Brought notes={entry.notes} />}
          <Field label="Name" problem={field === "name" ? error : null}>
            <input
              value={draft.name}
              maxLength={200}
              placeholder="nightly-report"
              onInput={(e) => set({ name: e.currentTarget.value })}
            />
          </Field>
          <Field label="what it is for">
            <textarea
              rows={2}
              value={draft.description}
              maxLength={2000}
              placeholder="nothing is said"
              onInput={(e) => set({ description: e.currentTarget.value })}
            />
          </Field>
          <fieldset>
            <legend>When</legend>
            <Switch words={WHENS} value={draft.when} choose={(when) => set({ when })} />
            <WhenFields
              draft={draft}
              set={set}
              problem={previewed.error ?? (field.startsWith("schedule") ? error : null)}
            />
          </fieldset>
          <fieldset>
            <legend>What</legend>
            <Switch
              words={{
                http: "call a URL",
                task: "run a task",
                message: "publish a message",
                noop: "nothing",
              }}
              value={draft.kind}
              choose={(kind) => set({ kind })}
            />
            {draft.kind === "http" && (
              <TargetFields draft={draft} set={set} problem={field.startsWith("target") ? error : null} />
            )}
            {draft.kind === "other" && job && (
              <p class="hint">Its target is of the kind “{job.target.kind}”, which stays as it is.</p>
            )}
            {draft.kind === "task" && (
              <TaskFields draft={draft} set={set} problem={field.startsWith("target") ? error : null} />
            )}
            {draft.kind === "message" && (
              <MessageFields draft={draft} set={set} problem={field.startsWith("target") ? error : null} />
            )}
          </fieldset>
          <fieldset>
            <legend>If it fails, overlaps or is late</legend>
            <PolicyFields draft={draft} set={set} />
          </fieldset>
          {error && <Trouble error={error} />}
          {job && theirs && <Theirs mine={job} theirs={theirs} keepMine={keepMine} />}
          <div class="actions">
            <button type="submit" class="primary" disabled={previewed.error !== null}>
              {job ? "Save" : "Create"}
            </button>
            {["http", "message"].includes(draft.kind) && <TryIt draft={draft} tried={tried} tell={tell} />}
            <SameAs job={job} draft={draft} />
          </div>
          <WhatCame of={tried} />
        </div>
        <PreviewCard draft={draft} job={job} of={previewed} set={set} />
      </form>
    </>
  );
}

/** That the form came from a crontab, and what did not come along. */
function Brought({ notes }: { notes: string[] }) {
  return (
    <div class="warning">
      From your crontab; nothing is created yet.
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
    </div>
  );
}

/** The fields that this form changed. */
function mine(before: Draft, draft: Draft): Partial<Draft> {
  const names = Object.keys(draft) as (keyof Draft)[];
  return Object.fromEntries(
    names.filter((name) => draft[name] !== before[name]).map((name) => [name, draft[name]]),
  );
}

function Crumbs({ job }: { job: Job | null }) {
  return (
    <p class="crumbs">
      <a href={address("/jobs")}>Jobs</a>
      {job && (
        <>
          {" › "}
          <a href={address(`/jobs/${job.id}`)}>{job.name ?? job.id}</a>
        </>
      )}
    </p>
  );
}

interface SwitchProps<T extends string> {
  words: Partial<Record<T, string>>;
  value: T;
  choose: (value: T) => void;
}

function Switch<T extends string>({ words, value, choose }: SwitchProps<T>) {
  return (
    <div class="switch">
      {(Object.keys(words) as T[]).map((one) => (
        <button key={one} type="button" aria-pressed={value === one} onClick={() => choose(one)}>
          {words[one]}
        </button>
      ))}
    </div>
  );
}

/** What another person changed meanwhile: shown, never overwritten. */
function Theirs({ mine, theirs, keepMine }: { mine: Job; theirs: Job; keepMine: () => void }) {
  return (
    <div class="theirs">
      <h3>What was changed meanwhile</h3>
      <Diff before={definitionOf(mine)} after={definitionOf(theirs)} />
      <button type="button" onClick={keepMine}>
        Put my changes on top of theirs
      </button>
    </div>
  );
}

function SameAs({ job, draft }: { job: Job | null; draft: Draft }) {
  const body = bodyOf(draft);
  if (job) return <Copy curl={asCurl("PATCH", `/jobs/${job.id}`, changesOf(job, body))} />;
  const curl = asCurl("POST", "/jobs", newOf(draft));
  if (draft.when === "several" || headersNameSecrets(draft)) return <Copy curl={curl} />;
  return <Copy curl={curl} cli={asCli("jobs", "create", ...optionsOf(draft))} />;
}

type Tried = TrialAnswer | Refused | "under way" | null;

/** Call the same target once, now. Nothing is stored, and the form stays as it is. */
function TryIt({ draft, tried, tell }: { draft: Draft; tried: Tried; tell: (tried: Tried) => void }) {
  const call = () => {
    const { name, target } = newOf(draft);
    tell("under way");
    post<TrialAnswer>("/targets/test", { target, ...(name ? { name } : {}) })
      .then(tell)
      .catch(tell);
  };
  return (
    <button type="button" disabled={tried === "under way"} onClick={call}>
      {tried === "under way" ? "Trying it …" : "Try it once"}
    </button>
  );
}

/** What came of trying it, as an attempt is shown. */
function WhatCame({ of }: { of: Tried }) {
  if (!of || of === "under way") return null;
  if (of instanceof Refused) return <Trouble error={of} />;
  const { verdict, error, detail, duration_ms } = of;
  const attempt = {
    number: 1,
    verdict: verdict ?? "failed",
    error,
    detail,
    duration_ms,
    node: null,
    worker: null,
  };
  return (
    <div class="tried" role="status">
      <Attempt attempt={{ ...attempt, started_at: null, finished_at: null, result: null }} />
    </div>
  );
}
