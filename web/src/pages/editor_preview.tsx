/** The consequence beside the form: words, the next fires, what clock changes do, and what an edit takes and brings. */
import { useEffect, useState } from "preact/hooks";
import { ask, Refused } from "../api.ts";
import { type Draft, scheduleOf } from "../draft.ts";
import { type Changed, firesChanged } from "../fires_changed.ts";
import { useSettled } from "../hooks.ts";
import { type ClockChange, clockChanges } from "../plots/changes.ts";
import { dayOf, distance, now, stamp } from "../time.ts";
import type { Job, Preview, PreviewFire } from "../types.ts";
import { FitCard } from "./editor_fit.tsx";

const SETTLED_MS = 150;
const COMPARED = 100;
const RULES = ["cron", "literal", "once"];

const preview = (schedule: unknown, limit: number, after?: string, stop?: AbortSignal) =>
  ask<Preview>("POST", "/schedules/preview", {
    body: { schedule, limit, ...(after ? { after } : {}) },
    ...(stop ? { signal: stop } : {}),
  });

export interface Previewed {
  preview: Preview | null;
  error: Refused | null;
}

/** What the API says about the schedule in the form, asked for when the typing pauses. */
export function usePreview(draft: Draft): Previewed {
  const schedule = useSettled(JSON.stringify(scheduleOf(draft)), SETTLED_MS);
  const [state, set] = useState<Previewed>({ preview: null, error: null });
  useEffect(() => {
    const stop = new AbortController();
    preview(JSON.parse(schedule), 10, undefined, stop.signal)
      .then((found) => set({ preview: found, error: null }))
      .catch((caught) => caught instanceof Refused && set({ preview: null, error: caught }));
    return () => stop.abort();
  }, [schedule]);
  return state;
}

interface CardProps {
  draft: Draft;
  job: Job | null;
  of: Previewed;
  set: (changes: Partial<Draft>) => void;
}

export function PreviewCard({ draft, job, of, set }: CardProps) {
  return (
    <aside class="card preview" aria-live="polite">
      <h2>It fires</h2>
      {of.error && <p class="none">Not yet: {of.error.problem.detail}</p>}
      {of.preview && (
        <>
          <p class="explained">{of.preview.explanation}</p>
          <Fires fires={of.preview.fires} />
          {of.preview.warnings.map((warning) => (
            <p key={warning} class="warning">
              {warning}
            </p>
          ))}
          <FitCard draft={draft} set={set} />
          {draft.when === "cron" && <ClockChanges draft={draft} />}
          {job && <Difference job={job} draft={draft} />}
        </>
      )}
    </aside>
  );
}

function Fires({ fires }: { fires: PreviewFire[] }) {
  return (
    <ol class="coming-list">
      {fires.map((fire) => (
        <li key={fire.at}>
          <time dateTime={fire.at}>{fire.local.slice(11, 19)}</time>
          <span>{dayOf(fire.local)}</span>
          <small>{distance(Date.parse(fire.at))}</small>
        </li>
      ))}
    </ol>
  );
}

type Cells = Record<string, Record<string, string[]>>;

/** What each of the three rules does at the next two clock changes, side by side. Nothing where they do not differ. */
function ClockChanges({ draft }: { draft: Draft }) {
  const [cells, show] = useState<Cells>({});
  const [changes, find] = useState<ClockChange[]>([]);
  const schedule = useSettled(JSON.stringify(scheduleOf(draft)), SETTLED_MS);
  useEffect(() => {
    const found = changesOf(draft.zone);
    find(found);
    void Promise.all(
      found.flatMap((change) => RULES.map((rule) => firesOn(JSON.parse(schedule), rule, change))),
    )
      .then((all) => {
        const next: Cells = {};
        for (const { date, rule, fires } of all) next[date] = { ...next[date], [rule]: fires };
        show(next);
      })
      .catch(() => show({}));
  }, [schedule]);
  const differing = changes.filter(({ date }) => {
    const row = cells[date];
    return row && new Set(RULES.map((rule) => JSON.stringify(row[rule]))).size > 1;
  });
  if (!differing.length) return null;
  return (
    <table class="dst">
      <caption>when the clock changes, by rule</caption>
      <thead>
        <tr>
          <th>on</th>
          {RULES.map((rule) => (
            <th key={rule} class={rule === draft.dst ? "chosen" : ""}>
              {rule}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {differing.map(({ date, by }) => (
          <tr key={date}>
            <th>
              {date} <small>{by > 0 ? "an hour is missing" : "an hour comes twice"}</small>
            </th>
            {RULES.map((rule) => (
              <td key={rule} class={rule === draft.dst ? "chosen" : ""}>
                {inWords(cells[date]?.[rule] ?? [])}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function changesOf(zone: string): ClockChange[] {
  try {
    return clockChanges(zone || "UTC", now());
  } catch {
    return []; // a zone that is being typed
  }
}

async function firesOn(schedule: object, dst: string, change: ClockChange) {
  const after = new Date(change.at - 26 * 3_600_000).toISOString();
  const found = await preview({ ...schedule, dst }, 200, after);
  const fires = found.fires
    .filter((fire) => fire.local.startsWith(change.date))
    .map((fire) => fire.local.slice(11, 16));
  return { date: change.date, rule: dst, fires };
}

const MOST = 4;
const inWords = (fires: string[]) =>
  fires.length
    ? fires.slice(0, MOST).join(", ") + (fires.length > MOST ? ` … ${fires.length} in all` : "")
    : "nothing";

/** Which fires saving takes away, and which it brings. */
function Difference({ job, draft }: { job: Job; draft: Draft }) {
  const [changed, show] = useState<Changed | null>(null);
  const schedule = useSettled(JSON.stringify(scheduleOf(draft)), SETTLED_MS);
  useEffect(() => {
    const after = new Date(now()).toISOString();
    void Promise.all([
      preview(without(job.schedule), COMPARED, after),
      preview(JSON.parse(schedule), COMPARED, after),
    ])
      .then(([before, then]) => show(firesChanged(before.fires.map(atOf), then.fires.map(atOf), COMPARED)))
      .catch(() => show(null));
  }, [schedule, job.version]);
  if (!changed || (!changed.lost.length && !changed.gained.length)) return null;
  return (
    <div class="changed">
      <h3>Saving it</h3>
      <Side words="loses" mark="−" fires={changed.lost} />
      <Side words="gains" mark="+" fires={changed.gained} />
    </div>
  );
}

const atOf = (fire: PreviewFire) => fire.at;
const without = (schedule: object) =>
  Object.fromEntries(Object.entries(schedule).filter(([, value]) => value !== null));

function Side({ words, mark, fires }: { words: string; mark: string; fires: string[] }) {
  return (
    <p class={words}>
      {words} <b>{fires.length}</b> of the next {COMPARED}
      {fires.slice(0, MOST).map((at) => (
        <span key={at}>
          {mark} {stamp(Date.parse(at))}
        </span>
      ))}
      {fires.length > MOST && <span>…</span>}
    </p>
  );
}
