/** A fire or a range of a lane that was chosen: what it was, and what can be done about it. */
import { useState } from "preact/hooks";
import { get, post, query } from "../api.ts";
import { attempt } from "../parts/dialog.tsx";
import { State, Time } from "../parts/marks.tsx";
import type { Lane, LaneFire } from "../plots/lane_types.ts";
import { address, alter, go } from "../router.ts";
import { mayWrite } from "../session.ts";
import { duration, now, stamp } from "../time.ts";
import type { ExecutionPage, Job } from "../types.ts";
import { BackfillDialog } from "./job_backfills.tsx";

/** Look at a range of time, whatever the clock says. */
export const fix = (from: number, to: number) =>
  alter({ from: new Date(from).toISOString(), to: new Date(to).toISOString(), span: undefined }, true);

export interface Chosen {
  lane: Lane;
  fire: LaneFire | null;
  range: [number, number] | null;
}

export function Detail({ chosen: { lane, fire, range }, close }: { chosen: Chosen; close: () => void }) {
  const [job, backfill] = useState<Job | null>(null);
  const open = async () => {
    if (!fire) return;
    const until = new Date(Date.parse(fire.at) + 1).toISOString();
    const page = await get<ExecutionPage>(
      `/executions${query({ job: lane.job, fire_from: fire.at, fire_to: until, limit: 1 })}`,
    );
    if (page.items[0]) go(`/executions/${page.items[0].id}`);
  };
  return (
    <div class="detail">
      <b>{lane.name ?? lane.job}</b>
      {fire && <FireWords fire={fire} />}
      {range && (
        <span>
          {stamp(range[0])} – {stamp(range[1])} ({duration(range[1] - range[0])})
        </span>
      )}
      {!fire && !range && <span class="none">no fire there</span>}
      <span class="grow" />
      {fire && fire.state !== "expected" && fire.count === 1 && (
        <button type="button" class="small" onClick={() => void open()}>
          Open the execution
        </button>
      )}
      {range && (
        <button type="button" class="small" onClick={() => fix(...range)}>
          Zoom in
        </button>
      )}
      {range && range[0] < now() && mayWrite.value && (
        <button type="button" class="small" onClick={() => void get<Job>(`/jobs/${lane.job}`).then(backfill)}>
          Backfill this range…
        </button>
      )}
      {range && range[1] > now() && mayWrite.value && <Ahead lane={lane} range={range} close={close} />}
      <a class="button small" href={address(`/jobs/${lane.job}`)}>
        The job
      </a>
      <button type="button" class="small" onClick={close} aria-label="close">
        ✕
      </button>
      {job && range && (
        <BackfillDialog
          job={job}
          range={[range[0], Math.min(range[1], now())]}
          close={() => backfill(null)}
          again={() => undefined}
        />
      )}
    </div>
  );
}

/** What can be done about the future: leave the next fire out, or hold all of them until the range ends. */
function Ahead({ lane, range, close }: { lane: Lane; range: [number, number]; close: () => void }) {
  const next = lane.fires?.find((fire) => Date.parse(fire.at) > now());
  const within = next && Date.parse(next.at) >= range[0] && Date.parse(next.at) <= range[1];
  const until = new Date(range[1]).toISOString();
  const skip = async () => {
    const path = `/jobs/${lane.job}/skip-next`;
    await attempt(post<{ skipped: string }>(path), (answer) => `Skips ${stamp(Date.parse(answer.skipped))}.`);
    close();
  };
  const pause = async () => {
    await attempt(post(`/jobs/${lane.job}/pause`, { until }), `Paused until ${stamp(range[1])}.`);
    close();
  };
  return (
    <>
      {within && (
        <button type="button" class="small" onClick={() => void skip()}>
          Skip the next fire
        </button>
      )}
      <button type="button" class="small" onClick={() => void pause()}>
        Pause until {stamp(range[1])}
      </button>
    </>
  );
}

function FireWords({ fire }: { fire: LaneFire }) {
  return (
    <>
      <State state={fire.state} />
      <Time at={fire.at} />
      {fire.until && (
        <span>
          to <Time at={fire.until} />, {fire.count} fires
        </span>
      )}
      {fire.late_ms !== null && <span>late {duration(Math.max(0, fire.late_ms))}</span>}
      {fire.run_ms !== null && <span>ran {duration(fire.run_ms)}</span>}
      {fire.reason && <span>{fire.reason}</span>}
    </>
  );
}
