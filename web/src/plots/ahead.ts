/** What is expected: the next half minute fire by fire, then the forecast by minutes. Pure. */
import type { ComingFire, Forecast } from "../types.ts";

/** The fires in a stretch of time, as a bar that is as high as if the stretch were one step long. */
export interface Stretch {
  at: number;
  ms: number;
  number: number;
}

const MINUTE = 60_000;
/** How far ahead every fire is planned. Of what comes later, the next fire of each job is known and no more. */
const PLANNED_MS = 30_000;
/** How many coming fires are asked for. */
export const MOST_COMING = 200;

/** Without single fires, which know no queue, there is the forecast from now on. */
export function ahead(
  coming: ComingFire[] | null,
  forecast: Forecast | null,
  now: number,
  stepMs: number,
): Stretch[] {
  if (!coming) return forecast ? foreseen(forecast, stepMs, now) : [];
  if (!forecast) return counted(coming, stepMs);
  const last = coming.length < MOST_COMING ? Number.POSITIVE_INFINITY : Date.parse(coming.at(-1)!.at);
  const edge = Math.ceil(Math.min(now + PLANNED_MS, last) / stepMs) * stepMs;
  const single = coming.filter((fire) => Date.parse(fire.at) < edge);
  return [...counted(single, stepMs), ...foreseen(forecast, stepMs, edge)];
}

function counted(fires: ComingFire[], stepMs: number): Stretch[] {
  const found = new Map<number, number>();
  for (const fire of fires) {
    const at = Math.floor(Date.parse(fire.at) / stepMs) * stepMs;
    found.set(at, (found.get(at) ?? 0) + 1);
  }
  return [...found].map(([at, number]) => ({ at, ms: stepMs, number }));
}

/** The forecast from an instant on, in steps of a minute or longer. Of a minute that began before only the rest is shown. */
function foreseen(forecast: Forecast, stepMs: number, from: number): Stretch[] {
  const wide = Math.max(MINUTE, stepMs);
  const found = new Map<number, number>();
  for (const [place, text] of forecast.at.entries()) {
    const at = Date.parse(text);
    const fires = (forecast.expected[place] ?? 0) + (forecast.one_offs[place] ?? 0);
    const rest = Math.min(1, Math.max(0, (at + MINUTE - from) / MINUTE));
    if (!fires || !rest) continue;
    const stretch = Math.floor(at / wide) * wide;
    found.set(stretch, (found.get(stretch) ?? 0) + fires * rest);
  }
  return [...found].map(([at, number]) => {
    const begin = Math.max(at, from);
    const ms = at + wide - begin;
    return { at: begin, ms, number: (number * stepMs) / ms };
  });
}
