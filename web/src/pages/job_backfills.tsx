/** Backfills of a job: the past made up for, with a dry run before and progress after. */
import { useState } from "preact/hooks";
import { post } from "../api.ts";
import { local } from "../draft.ts";
import { asCli, asCurl, asOptions, Copy } from "../parts/copy.tsx";
import { attempt, Dialog, say } from "../parts/dialog.tsx";
import { useDryRun } from "../parts/dry_run.ts";
import { State, Time } from "../parts/marks.tsx";
import { Trouble } from "../parts/notices.tsx";
import { address } from "../router.ts";
import { mayWrite } from "../session.ts";
import { count, duration, now, stamp } from "../time.ts";
import type { Backfill, BackfillAnswer, Job } from "../types.ts";

const DAY = 86_400_000;

interface Props {
  job: Job;
  close: () => void;
  again: () => void;
  /** The range to begin with, as instants. */
  range?: [number, number];
}

export function BackfillDialog({ job, close, again, range }: Props) {
  const [from, begin] = useState(inputOf(range?.[0] ?? now() - DAY));
  const [to, end] = useState(inputOf(range?.[1] ?? now()));
  const [mode, choose] = useState<"missing" | "all">("missing");
  const [pace, slow] = useState("0s");
  const [parallel, widen] = useState("10");
  const body = {
    from: instantOf(from),
    to: instantOf(to),
    mode,
    pace: pace || "0s",
    max_parallel: Number(parallel) || 1,
  };
  const { dry, error } = useDryRun<BackfillAnswer>(`/jobs/${job.id}/backfills`, body);
  const act = async () => {
    const made = await post<BackfillAnswer>(`/jobs/${job.id}/backfills`, body);
    say(`Backfill of ${count(made.total)} fires started.`);
    again();
  };
  return (
    <Dialog
      title={`Backfill ${job.name ?? ""}`}
      action="Start"
      wide
      close={close}
      act={act}
      not={!dry?.total}
    >
      <div class="fields">
        <label>
          from ({local})
          <input
            type="datetime-local"
            step="1"
            value={from}
            onInput={(event) => begin(event.currentTarget.value)}
          />
        </label>
        <label>
          to ({local})
          <input
            type="datetime-local"
            step="1"
            value={to}
            onInput={(event) => end(event.currentTarget.value)}
          />
        </label>
        <label>
          a pause after each
          <input value={pace} placeholder="0s" onInput={(event) => slow(event.currentTarget.value)} />
        </label>
        <label>
          at once, at most
          <input
            type="number"
            min={1}
            value={parallel}
            onInput={(event) => widen(event.currentTarget.value)}
          />
        </label>
      </div>
      <div class="switch" role="group" aria-label="Which">
        {(["missing", "all"] as const).map((one) => (
          <button key={one} type="button" aria-pressed={mode === one} onClick={() => choose(one)}>
            {one === "missing" ? "only those that did not run" : "all, also those that ran"}
          </button>
        ))}
      </div>
      {error ? <Trouble error={error} /> : <Consequence dry={dry} pace={pace} />}
      <Copy
        curl={asCurl("POST", `/jobs/${job.id}/backfills`, body)}
        cli={asCli(
          "backfills",
          "create",
          job.id,
          ...asOptions({ ...body, max_parallel: String(body.max_parallel) }),
        )}
      />
    </Dialog>
  );
}

function Consequence({ dry, pace }: { dry: BackfillAnswer | null; pace: string }) {
  if (!dry) return <p>Looking at what it would run …</p>;
  const first = dry.fire_times
    .slice(0, 3)
    .map((at) => stamp(Date.parse(at)))
    .join("; ");
  const seconds = /^(\d+)s$/.exec(pace)?.[1];
  const about =
    seconds && Number(seconds) ? `, done in about ${duration(Number(seconds) * dry.total * 1000)}` : "";
  return (
    <p class="consequence">
      would run <b>{count(dry.total)}</b>
      {dry.total ? ` (${first}${dry.total > 3 ? " …" : ""})${about}` : ": nothing of this range is missing"}
    </p>
  );
}

const inputOf = (at: number) => {
  const local = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
};
const instantOf = (text: string) => (text ? new Date(text).toISOString() : "");

/** Backfills and how far they have come. */
export function Backfills({
  items,
  again,
  named = false,
}: {
  items: Backfill[];
  again: () => void;
  named?: boolean;
}) {
  const stop = async (id: number) => {
    await attempt(post(`/backfills/${id}/cancel`), "Stopped. What has started goes on.");
    again();
  };
  return (
    <section class="card">
      <h2>Backfills</h2>
      <ul class="works">
        {items.map((one) => (
          <li key={one.id}>
            <State state={one.finished_at ? "completed" : "running"} word={one.state} />
            {named && <a href={address(`/jobs/${one.job_id}`)}>{one.job_name ?? one.job_id}</a>}
            <span>
              {stamp(Date.parse(one.from))} – {stamp(Date.parse(one.to))}
            </span>
            <progress max={Math.max(1, one.total)} value={one.finished} aria-label="done" />
            <small>
              {count(one.finished)} of {count(one.total)} ended, {count(one.live)} live, {count(one.left_out)}{" "}
              left out · <Time at={one.created_at} far />
            </small>
            {!one.finished_at && mayWrite.value && (
              <button type="button" class="small" onClick={() => void stop(one.id)}>
                Stop
              </button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
